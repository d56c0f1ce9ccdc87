//! Expressions in CEL over one cluster. What an expression may cost is bounded by its length: loops (all,
//! exists, exists_one, map, filter) are refused, and so is whatever else can give much from little. That also
//! keeps its value a function of its inputs, for the maps of the interpreter have no order.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};

use cel::common::ast::{CallExpr, EntryExpr, Expr, LiteralValue, operators};
use cel::{Context, Env, ExecutionError, IdedExpr, Value as Cel, extensions, parser::Parser};
use serde::Serialize;
use serde_json::{Map, Number, Value};
use vidra_api::overrides::EXPRESSION_MAX;

use crate::unseen::shown;

/// Most brackets within brackets. The parser goes down by recursion, and takes much of the stack for each in a
/// build that is not optimised.
const NESTING_MAX: usize = 5;
/// Deepest expression, operators in a chain counted too. The interpreter goes down by recursion.
const DEPTH_MAX: usize = 16;
/// Longest text, and most items in all, that an expression may give.
const RESULT_MAX: usize = 64 * 1024;
/// Most characters that say what is wrong with one: it may repeat words of its own.
const WHAT_MAX: usize = 512;

/// Functions whose result is no longer than what they are given, and the optional's.
const FUNCTIONS: [&str; 27] = [
    "bool",
    "charAt",
    "contains",
    "double",
    "dyn",
    "endsWith",
    "has",
    "hasValue",
    "indexOf",
    "int",
    "lastIndexOf",
    "lowerAscii",
    "none",
    "of",
    "ofNonZeroValue",
    "or",
    "orValue",
    "replace",
    "size",
    "split",
    "startsWith",
    "string",
    "substring",
    "trim",
    "uint",
    "upperAscii",
    "value",
];
const OPERATORS: [&str; 20] = [
    operators::CONDITIONAL,
    operators::LOGICAL_AND,
    operators::LOGICAL_OR,
    operators::LOGICAL_NOT,
    operators::SUBSTRACT,
    operators::ADD,
    operators::MULTIPLY,
    operators::DIVIDE,
    operators::MODULO,
    operators::EQUALS,
    operators::NOT_EQUALS,
    operators::GREATER_EQUALS,
    operators::LESS_EQUALS,
    operators::GREATER,
    operators::LESS,
    operators::NEGATE,
    operators::INDEX,
    operators::OPT_INDEX,
    operators::OPT_SELECT,
    operators::IN,
];

static ENV: LazyLock<Arc<Env>> = LazyLock::new(|| {
    let mut env = Env::stdlib();
    // Its overloads are declared once, so they cannot be there already.
    let _ = env.add_extension(extensions::strings);
    Arc::new(env)
});

/// One expression, checked.
#[derive(Debug)]
pub(super) struct Expression {
    expression: IdedExpr,
    /// What it uses of a cluster.
    pub(super) uses: Uses,
}

/// What expressions use of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Uses {
    pub(super) name: bool,
    pub(super) labels: BTreeSet<String>,
    pub(super) values: BTreeSet<String>,
}

/// What an expression may see of a cluster.
#[derive(Serialize)]
pub(super) struct Inputs<'a> {
    pub(super) name: &'a str,
    pub(super) labels: &'a BTreeMap<String, String>,
    pub(super) values: &'a BTreeMap<String, String>,
}

impl Expression {
    /// Reads and checks an expression; an error says what is wrong and how to fix it.
    pub(super) fn compile(text: &str) -> Result<Self, String> {
        if text.chars().count() > EXPRESSION_MAX {
            return Err(format!(
                "the expression is longer than {EXPRESSION_MAX} characters; make it shorter"
            ));
        }
        nesting(text)?;
        let parser =
            Parser::new().max_recursion_depth(64).error_recovery_limit(1).enable_optional_syntax(true);
        let expression = parser.parse(text).map_err(|errors| {
            let first = errors.errors.first();
            let (line, column) = first.map_or((0, 0), |error| error.pos);
            let what = first.map(|error| shown(&error.msg, WHAT_MAX)).unwrap_or_default();
            format!("this is no expression in CEL, line {line}, column {column}: {what}")
        })?;
        let mut check = Check::default();
        check.walk(&expression, 0).map_err(|what| shown(&what, WHAT_MAX))?;
        Ok(Self { expression, uses: check.uses })
    }

    /// What it gives for a cluster; an error says why it gives nothing and how to fix that.
    pub(super) fn evaluate(&self, cluster: &Inputs<'_>) -> Result<Value, String> {
        let input = cel::to_value(cluster).map_err(|_| "the cluster cannot be handed to it".to_owned())?;
        let mut context = Context::with_env(ENV.clone());
        context.add_variable_from_value("cluster", input);
        let given = Cel::resolve(&self.expression, &context)
            .map_err(|error| shown(&self.explain(&error, cluster), WHAT_MAX))?;
        let mut room = RESULT_MAX;
        to_json(&given, &mut room)
    }

    fn explain(&self, error: &ExecutionError, cluster: &Inputs<'_>) -> String {
        let ExecutionError::NoSuchKey(key) = error else {
            return match error {
                ExecutionError::NoSuchOverload(overload) => overload.to_string(),
                ExecutionError::UndeclaredReference(name) => format!("there is no function {name}"),
                ExecutionError::FunctionError { function, message } => format!("{function}: {message}"),
                ExecutionError::IndexOutOfBounds(_) => {
                    "an index is beyond the end of its list or text".to_owned()
                }
                ExecutionError::DivisionByZero(_) | ExecutionError::RemainderByZero(_) => {
                    "it divides by zero".to_owned()
                }
                ExecutionError::Overflow(..) => "a number becomes too large".to_owned(),
                // Others may quote a whole value.
                _ => "the values do not fit together; convert them with string() or int()".to_owned(),
            };
        };
        let name = cluster.name;
        let lacks = |used: &BTreeSet<String>, has: &BTreeMap<String, String>| {
            used.contains(key.as_str()) && !has.contains_key(key.as_str())
        };
        let otherwise =
            |map: &str| format!("or write '{key}' in cluster.{map} ? cluster.{map}['{key}'] : 'a default'");
        if lacks(&self.uses.labels, cluster.labels) {
            return format!(
                "cluster.labels has no key {key:?}; label MemberCluster {name}, {}",
                otherwise("labels")
            );
        }
        if lacks(&self.uses.values, cluster.values) {
            return format!(
                "cluster.values has no key {key:?}; set spec.values of MemberCluster {name}, {}",
                otherwise("values")
            );
        }
        format!("there is no key {key:?} in a map of the expression")
    }
}

/// Refuses brackets within brackets within brackets before the parser, which goes down by recursion, sees them.
fn nesting(text: &str) -> Result<(), String> {
    let mut depth = 0usize;
    for letter in text.chars() {
        match letter {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > NESTING_MAX {
            return Err(format!(
                "there are more than {NESTING_MAX} brackets within brackets; make it simpler"
            ));
        }
    }
    Ok(())
}

fn too_deep() -> String {
    format!("more than {DEPTH_MAX} steps are nested or chained; make it simpler")
}

/// Looks for what is not allowed, and collects what is used of the cluster.
#[derive(Default)]
struct Check {
    uses: Uses,
    replaces: usize,
}

impl Check {
    fn walk(&mut self, node: &IdedExpr, depth: usize) -> Result<(), String> {
        if depth > DEPTH_MAX {
            return Err(too_deep());
        }
        let below = depth + 1;
        if self.is_input(&node.expr)? {
            return Ok(());
        }
        match &node.expr {
            Expr::Call(call) => self.call(call, below),
            Expr::Comprehension(_) => Err("loops (all, exists, exists_one, map, filter) are not for overrides; name the keys, as in 'gpu' in cluster.labels".to_owned()),
            Expr::Ident(name) if name == "cluster" => Err("use cluster.name, cluster.labels['a key'] or cluster.values['a key']".to_owned()),
            Expr::Ident(name) => Err(format!("there is no variable {name}; there are cluster.name, cluster.labels and cluster.values")),
            Expr::List(list) => list.elements.iter().try_for_each(|one| self.walk(one, below)),
            Expr::Map(map) => map.entries.iter().try_for_each(|entry| match &entry.expr {
                EntryExpr::MapEntry(entry) => {
                    self.walk(&entry.key, below)?;
                    self.walk(&entry.value, below)
                }
                EntryExpr::StructField(field) => self.walk(&field.value, below),
            }),
            Expr::Select(select) => self.walk(&select.operand, below),
            Expr::Struct(_) => Err("there are no messages here; write a map, as in {'key': 'value'}".to_owned()),
            Expr::Literal(_) => Ok(()),
            Expr::Unspecified => Err("a part of the expression is missing".to_owned()),
        }
    }

    fn call(&mut self, call: &CallExpr, depth: usize) -> Result<(), String> {
        let name = call.func_name.as_str();
        if !OPERATORS.contains(&name) && !FUNCTIONS.contains(&name) {
            return Err(format!(
                "there is no function {name} for overrides; there are {}",
                FUNCTIONS.join(", ")
            ));
        }
        if name == "replace" {
            self.replaces += 1;
            if self.replaces > 1 || !call.args.iter().take(2).all(|one| text(one).is_some()) {
                return Err(
                    "use replace once, with two texts, as in cluster.name.replace('-', '_')".to_owned()
                );
            }
        }
        for part in call.args.iter().chain(call.target.as_deref()) {
            // optional.of(x) and its like name no variable.
            if !matches!(&part.expr, Expr::Ident(name) if name == "optional") {
                self.walk(part, depth)?;
            }
        }
        Ok(())
    }

    /// Whether this is one thing of the cluster; it is noted then.
    fn is_input(&mut self, node: &Expr) -> Result<bool, String> {
        let (map, key) = match node {
            Expr::Select(select) => match field_of_cluster(&select.operand.expr) {
                Some(map) => (map, Some(select.field.as_str())),
                None => match field_of_cluster(node) {
                    Some("name") => {
                        self.uses.name = true;
                        return Ok(true);
                    }
                    Some(map) => (map, None),
                    None => return Ok(false),
                },
            },
            Expr::Call(call) => {
                let (map, key) = match (call.func_name.as_str(), call.args.as_slice()) {
                    (operators::INDEX | operators::OPT_INDEX | operators::OPT_SELECT, [map, key]) => {
                        (map, key)
                    }
                    (operators::IN, [key, map]) => (map, key),
                    _ => return Ok(false),
                };
                match field_of_cluster(&map.expr) {
                    Some(map) => (map, text(key)),
                    None => return Ok(false),
                }
            }
            _ => return Ok(false),
        };
        let used = match map {
            "labels" => &mut self.uses.labels,
            "values" => &mut self.uses.values,
            "name" => return Err("cluster.name is a text and has nothing below it".to_owned()),
            other => return Err(format!("cluster has no {other}; it has name, labels and values")),
        };
        let Some(key) = key else {
            return Err(format!("name the key of cluster.{map} as a text, as in cluster.{map}['region']"));
        };
        used.insert(key.to_owned());
        Ok(true)
    }
}

/// `labels` of `cluster.labels`.
fn field_of_cluster(node: &Expr) -> Option<&str> {
    match node {
        Expr::Select(select) if matches!(&select.operand.expr, Expr::Ident(name) if name == "cluster") => {
            Some(select.field.as_str())
        }
        _ => None,
    }
}

fn text(node: &IdedExpr) -> Option<&str> {
    match &node.expr {
        Expr::Literal(LiteralValue::String(text)) => Some(text.inner()),
        _ => None,
    }
}

fn spend(room: &mut usize, bytes: usize) -> Result<(), String> {
    let left = room.checked_sub(bytes);
    *room = left.ok_or_else(|| format!("it gives more than {RESULT_MAX} bytes; make it less"))?;
    Ok(())
}

fn to_json(given: &Cel, room: &mut usize) -> Result<Value, String> {
    // A text without letters is an item too.
    let cost = match given {
        Cel::String(text) => text.len().max(8),
        _ => 8,
    };
    spend(room, cost)?;
    Ok(match given {
        Cel::Null => Value::Null,
        Cel::Bool(value) => Value::from(*value),
        Cel::Int(value) => Value::from(*value),
        Cel::UInt(value) => Value::from(*value),
        Cel::Float(value) => {
            Number::from_f64(*value).map(Value::Number).ok_or("it gives no finite number")?
        }
        Cel::String(text) => Value::from(text.as_str()),
        Cel::List(items) => items.iter().map(|item| to_json(item, room)).collect::<Result<_, _>>()?,
        Cel::Map(map) => {
            let mut sorted = BTreeMap::new();
            for (key, value) in map.map.iter() {
                let cel::objects::Key::String(key) = key else {
                    return Err("it gives a map with keys that are no texts; write them in quotes".to_owned());
                };
                spend(room, key.len())?;
                sorted.insert(key.as_str().to_owned(), to_json(value, room)?);
            }
            Value::Object(sorted.into_iter().collect::<Map<_, _>>())
        }
        Cel::Opaque(_) => return Err("it gives an optional; end it with .orValue('a default')".to_owned()),
        _ => return Err("it gives what no object can hold; convert it with string()".to_owned()),
    })
}

#[cfg(test)]
mod tests;
