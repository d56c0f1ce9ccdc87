//! `x-kubernetes-validations`: rules in CEL, compiled once, and run as kube-apiserver runs them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};

use cel::common::ast::{CallExpr, EntryExpr, Expr, LiteralValue, operators};
use cel::common::types::{CelBool, CelInt, CelString, STRING_TYPE};
use cel::common::value::CowVal;
use cel::objects::OptionalValue;
use cel::{Context, Env, ExecutionError, IdedExpr, Value as Cel, extensions};
use parking_lot::Mutex;
use regex::Regex;
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::Value;

use super::check::{Wrong, below};
use super::format::nanoseconds;
use super::node::Node;

/// One rule.
#[derive(Debug)]
pub(super) struct Rule {
    text: String,
    expression: IdedExpr,
    message: Option<String>,
    message_expression: Option<IdedExpr>,
    reason: &'static str,
    /// Where its refusals point, below the value itself.
    field: String,
    old: bool,
    optional_old: bool,
    /// The top fields that it looks at; none where it looks at the whole.
    fields: Option<BTreeSet<String>>,
}

/// What rules may call beside operators and the macros.
const FUNCTIONS: [&str; 30] = [
    "bool",
    "charAt",
    "contains",
    "double",
    "duration",
    "dyn",
    "endsWith",
    "has",
    "hasValue",
    "indexOf",
    "int",
    "lastIndexOf",
    "lowerAscii",
    "matches",
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
    "type",
    "uint",
    "upperAscii",
    "value",
];
const OPERATORS: [&str; 21] = [
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
    operators::NOT_STRICTLY_FALSE,
];
/// Names of types, for `type(self) == string`.
const TYPES: [&str; 9] = ["bool", "bytes", "double", "int", "list", "map", "null_type", "string", "uint"];
/// Formats whose values are no texts in CEL on the real server.
const OTHERWISE_TYPED: [&str; 4] = ["byte", "date", "date-time", "duration"];

static ENV: LazyLock<Arc<Env>> = LazyLock::new(|| {
    let mut env = Env::stdlib();
    // Each is declared once: none can be there already, but for `matches` where another crate wants it of cel.
    let _ = env.add_extension(extensions::strings);
    let _ = env.add_overload("matches", "matches", vec![STRING_TYPE, STRING_TYPE], matches);
    let _ = env.add_member_overload("matches", "string_matches", STRING_TYPE, vec![STRING_TYPE], matches);
    // A number of nanoseconds: durations are compared with each other only.
    let _ = env.add_overload("duration", "string_to_duration", vec![STRING_TYPE], duration);
    Arc::new(env)
});

fn text_of<'v>(arguments: &'v [CowVal<'_, '_>], index: usize) -> &'v str {
    let text = arguments.get(index).and_then(|one| one.downcast_ref::<CelString<'_>>());
    text.map(CelString::inner).unwrap_or_default()
}

fn matches<'b, 'v>(arguments: Vec<CowVal<'b, 'v>>) -> Result<CowVal<'b, 'v>, ExecutionError> {
    let pattern = known(text_of(&arguments, 1))
        .map_err(|message| ExecutionError::FunctionError { function: "matches".to_owned(), message })?;
    Ok(CowVal::owned(CelBool::from(pattern.is_match(text_of(&arguments, 0)))))
}

fn duration<'b, 'v>(arguments: Vec<CowVal<'b, 'v>>) -> Result<CowVal<'b, 'v>, ExecutionError> {
    let text = text_of(&arguments, 0);
    let message = || format!("invalid duration {text:?}");
    let read = nanoseconds(text).ok_or_else(|| ExecutionError::FunctionError {
        function: "duration".to_owned(),
        message: message(),
    })?;
    Ok(CowVal::owned(CelInt::from(read)))
}

/// A pattern, compiled once in a process.
fn known(text: &str) -> Result<Regex, String> {
    static KNOWN: Mutex<BTreeMap<String, Regex>> = Mutex::new(BTreeMap::new());
    let mut known = KNOWN.lock();
    if let Some(pattern) = known.get(text) {
        return Ok(pattern.clone());
    }
    let read = super::regex(text)?;
    if known.len() > 1000 {
        known.clear();
    }
    known.insert(text.to_owned(), read.clone());
    Ok(read)
}

impl Rule {
    /// Compiles a rule of a schema; an error says which of its fields is wrong, and why.
    pub fn read(rule: &Value, node: &Node) -> Result<Self, (&'static str, String)> {
        let text = |field: &str| rule[field].as_str().unwrap_or_default();
        let compile = |field: &'static str| {
            let mut names = Names { node, old: false, fields: Some(BTreeSet::new()), inner: Vec::new() };
            let read = ENV.parser().parse(text(field)).map_err(|errors| errors.to_string());
            let expression = read.and_then(|read| names.walk(&read).map(|()| read));
            let failed = |why| (field, format!("compilation failed: {why}"));
            expression.map(|expression| (expression, names.old, names.fields)).map_err(failed)
        };
        let optional_old = rule["optionalOldSelf"] == true;
        let (expression, old, mut fields) = compile("rule")?;
        let message_expression = match text("messageExpression") {
            "" => None,
            _ => {
                let (expression, _, of_message) = compile("messageExpression")?;
                fields = fields.zip(of_message).map(|(one, other)| &one | &other);
                Some(expression)
            }
        };
        let reason = match text("reason") {
            "" | "FieldValueInvalid" => "FieldValueInvalid",
            "FieldValueForbidden" => "FieldValueForbidden",
            "FieldValueRequired" => "FieldValueRequired",
            "FieldValueDuplicate" => "FieldValueDuplicate",
            other => return Err(("reason", format!("Unsupported value: {other:?}"))),
        };
        Ok(Rule {
            text: text("rule").to_owned(),
            expression,
            message: rule["message"]
                .as_str()
                .filter(|text| !text.is_empty())
                .map(|text| text.trim().to_owned()),
            message_expression,
            reason,
            field: text("fieldPath").to_owned(),
            old,
            optional_old,
            fields,
        })
    }

    /// Does it compare with what was before?
    pub fn is_transition(&self) -> bool {
        self.old
    }

    /// What it refuses of a value.
    fn run(&self, node: &Node, value: &Value, old: Option<&Value>, path: &str) -> Option<Wrong> {
        if self.old && old.is_none() && !self.optional_old {
            return None;
        }
        let path = match path {
            "" => self.field.trim_start_matches('.').to_owned(),
            path => format!("{path}{}", self.field),
        };
        let path = if path.is_empty() { "<nil>".to_owned() } else { path };
        let show = |value: &Value| {
            let shown = Shown { value, node: Some(node), only: self.fields.as_ref() };
            cel::to_value(shown).map_err(|error| error.to_string())
        };
        let kind = node.kind.as_deref().unwrap_or_default();
        let broken = |why: String| {
            let message = format!("Invalid value: {kind:?}: {why} evaluating rule: {}", self.said());
            Some((path.clone(), "FieldValueInvalid", message))
        };
        let mut context = Context::with_env(ENV.clone());
        match show(value) {
            Ok(shown) => context.add_variable_from_value("self", shown),
            Err(why) => return broken(why),
        }
        if self.old {
            match (old.map(show), self.optional_old) {
                (Some(Err(why)), _) => return broken(why),
                (Some(Ok(old)), false) => context.add_variable_from_value("oldSelf", old),
                (Some(Ok(old)), true) => {
                    context.add_variable_from_value("oldSelf", Cel::Opaque(Arc::new(OptionalValue::of(old))));
                }
                (None, _) => {
                    context.add_variable_from_value("oldSelf", Cel::Opaque(Arc::new(OptionalValue::none())));
                }
            }
        }
        match Cel::resolve(&self.expression, &context) {
            Ok(Cel::Bool(true)) => return None,
            Ok(Cel::Bool(false)) => {}
            Ok(_) => return broken("the rule gives no boolean".to_owned()),
            Err(error) => return broken(error.to_string()),
        }
        let said = self.message_expression.as_ref().and_then(|expression| {
            match Cel::resolve(expression, &context) {
                Ok(Cel::String(text)) => Some(text.trim().to_owned()).filter(|text| !text.is_empty()),
                _ => None,
            }
        });
        let said = said.unwrap_or_else(|| self.said());
        let message = match self.reason {
            "FieldValueForbidden" => format!("Forbidden: {said}"),
            "FieldValueRequired" => format!("Required value: {said}"),
            "FieldValueDuplicate" => format!("Duplicate value: {value}"),
            _ if matches!(kind, "object" | "array") => format!("Invalid value: {said}"),
            _ => format!("Invalid value: {value}: {said}"),
        };
        Some((path, self.reason, message))
    }

    fn said(&self) -> String {
        self.message.clone().unwrap_or_else(|| format!("failed rule: {}", self.text.trim()))
    }
}

/// Runs the rules of a value and of all below it. What is as it was before is let be, but for rules of changes.
pub(super) fn run(
    node: &Node,
    value: &Value,
    old: Option<&Value>,
    same: bool,
    path: &str,
    wrong: &mut Vec<Wrong>,
) {
    if !node.ruled || value.is_null() {
        return;
    }
    let same = same || old == Some(value);
    if same && !node.transitions {
        return;
    }
    let old = old.filter(|old| !old.is_null());
    let rules = node.rules.iter().filter(|rule| !same || rule.old);
    wrong.extend(rules.filter_map(|rule| rule.run(node, value, old, path)));
    for all in &node.all_of {
        // They see what the schema around them says.
        let rules = all.rules.iter().filter(|rule| !same || rule.old);
        wrong.extend(rules.filter_map(|rule| rule.run(node, value, old, path)));
    }
    match value {
        Value::Array(list) => {
            let Some(items) = &node.items else { return };
            for (index, item) in list.iter().enumerate() {
                let old = node.same_item(item, old);
                run(items, item, old, same, &format!("{path}[{index}]"), wrong);
            }
        }
        Value::Object(map) => {
            for (key, value) in map {
                if let Some(inner) = node.entry(key).filter(|inner| inner.ruled) {
                    let old = old.and_then(|old| old.get(key));
                    // As the server writes it here, and not where a schema refuses.
                    let path = match node.properties.contains_key(key) {
                        true => below(path, key),
                        false => format!("{path}[{key}]"),
                    };
                    run(inner, value, old, same, &path, wrong);
                }
            }
        }
        _ => {}
    }
}

/// A value as CEL sees it: what is declared, under names that CEL can have, numbers by their types.
struct Shown<'a> {
    value: &'a Value,
    node: Option<&'a Node>,
    only: Option<&'a BTreeSet<String>>,
}

impl Serialize for Shown<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let number = self.node.and_then(|node| node.kind.as_deref()) == Some("number");
        match self.value {
            Value::Null => to.serialize_unit(),
            Value::Bool(value) => to.serialize_bool(*value),
            Value::String(text) => to.serialize_str(text),
            Value::Number(value) => match value.as_i64() {
                Some(whole) if !number => to.serialize_i64(whole),
                _ => to.serialize_f64(value.as_f64().unwrap_or_default()),
            },
            Value::Array(list) => to.collect_seq(list.iter().map(|value| Shown {
                value,
                node: self.node.and_then(|node| node.items.as_deref()),
                only: None,
            })),
            Value::Object(map) => {
                let mut shown = to.serialize_map(None)?;
                for (key, value) in map {
                    let Some((name, node)) = self.entry(key, value) else { continue };
                    // A field that bears a word of CEL's answers to that word too.
                    let word = (name != *key && is_reserved(key)).then_some(key);
                    for name in [Some(&name), word].into_iter().flatten() {
                        if self.only.is_none_or(|only| only.contains(name)) {
                            shown.serialize_entry(name, &Shown { value, node, only: None })?;
                        }
                    }
                }
                shown.end()
            }
        }
    }
}

impl<'a> Shown<'a> {
    /// The name of an entry in CEL, and what is said of it. Nothing of what is not declared.
    fn entry(&self, key: &str, value: &Value) -> Option<(String, Option<&'a Node>)> {
        // Of metadata, which no schema declares.
        let Some(node) = self.node else {
            return matches!(key, "name" | "generateName").then(|| (key.to_owned(), None));
        };
        if node.resource && key == "metadata" {
            return Some((key.to_owned(), None));
        }
        if node.resource && matches!(key, "apiVersion" | "kind") {
            return Some((key.to_owned(), node.properties.get(key)));
        }
        if let Some(inner) = node.properties.get(key) {
            return Some((escaped(key)?, Some(inner))).filter(|_| !value.is_null() || inner.nullable);
        }
        node.rest.as_deref().map(|rest| (key.to_owned(), Some(rest)))
    }
}

/// Words that CEL keeps for itself. k8s.io/apiserver, pkg/cel/escaping.go.
const RESERVED: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

fn is_reserved(name: &str) -> bool {
    RESERVED.contains(&name)
}

/// A field's name as CEL writes it; none for one that it cannot have.
fn escaped(name: &str) -> Option<String> {
    if is_reserved(name) {
        return Some(format!("__{name}__"));
    }
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/');
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) || !name.chars().all(fits) {
        return None;
    }
    let name = name.replace("__", "\u{0}").replace('-', "__dash__").replace('.', "__dot__");
    Some(name.replace('/', "__slash__").replace('\u{0}', "__underscores__"))
}

/// Looks for names that an expression cannot use, and notes what it uses.
struct Names<'a> {
    node: &'a Node,
    old: bool,
    fields: Option<BTreeSet<String>>,
    /// Variables of the macros around.
    inner: Vec<String>,
}

/// What is known of an expression's type.
#[derive(Clone, Copy)]
enum Place<'a> {
    Node(&'a Node),
    /// Metadata of a resource.
    Metadata,
    /// Nothing.
    Any,
}

impl<'a> Names<'a> {
    fn walk(&mut self, expression: &IdedExpr) -> Result<(), String> {
        self.place(expression).map(|_| ())
    }

    fn place(&mut self, expression: &IdedExpr) -> Result<Place<'a>, String> {
        match &expression.expr {
            Expr::Ident(name) => self.variable(name),
            Expr::Select(select) => {
                let operand = match &select.operand.expr {
                    Expr::Ident(name) if self.is_own(name) => {
                        self.old |= name == "oldSelf";
                        if let Some(fields) = &mut self.fields {
                            fields.insert(select.field.clone());
                        }
                        Place::Node(self.node)
                    }
                    _ => self.place(&select.operand)?,
                };
                field(operand, &select.field)
            }
            Expr::Call(call) => self.call(call),
            Expr::Comprehension(loops) => {
                self.walk(&loops.iter_range)?;
                self.walk(&loops.accu_init)?;
                let before = self.inner.len();
                self.inner.extend([loops.iter_var.clone(), loops.accu_var.clone()]);
                self.inner.extend(loops.iter_var2.clone());
                self.walk(&loops.loop_cond)?;
                self.walk(&loops.loop_step)?;
                self.walk(&loops.result)?;
                self.inner.truncate(before);
                Ok(Place::Any)
            }
            Expr::List(list) => {
                list.elements.iter().try_for_each(|one| self.walk(one))?;
                Ok(Place::Any)
            }
            Expr::Map(map) => {
                for entry in &map.entries {
                    match &entry.expr {
                        EntryExpr::MapEntry(entry) => {
                            self.walk(&entry.key)?;
                            self.walk(&entry.value)?;
                        }
                        EntryExpr::StructField(field) => self.walk(&field.value)?,
                    }
                }
                Ok(Place::Any)
            }
            Expr::Literal(_) => Ok(Place::Any),
            Expr::Struct(_) => Err("there are no messages here".to_owned()),
            Expr::Unspecified => Err("a part of the expression is missing".to_owned()),
        }
    }

    fn is_own(&self, name: &str) -> bool {
        matches!(name, "self" | "oldSelf") && !self.inner.iter().any(|inner| inner == name)
    }

    fn variable(&mut self, name: &str) -> Result<Place<'a>, String> {
        if self.is_own(name) {
            self.old |= name == "oldSelf";
            self.fields = None;
            return Ok(Place::Node(self.node));
        }
        let known = self.inner.iter().any(|inner| inner == name) || TYPES.contains(&name);
        match known {
            true => Ok(Place::Any),
            false => Err(format!("undeclared reference to '{name}'")),
        }
    }

    fn call(&mut self, call: &CallExpr) -> Result<Place<'a>, String> {
        let name = call.func_name.as_str();
        if !OPERATORS.contains(&name) && !FUNCTIONS.contains(&name) {
            return Err(format!("undeclared reference to '{name}'; memkube knows {}", FUNCTIONS.join(", ")));
        }
        let optional = |one: &IdedExpr| matches!(&one.expr, Expr::Ident(name) if name == "optional");
        let mut parts = call.target.as_deref().into_iter().chain(&call.args).filter(|one| !optional(one));
        let first = parts.next().map(|one| self.place(one)).transpose()?;
        parts.try_for_each(|one| self.walk(one))?;
        if name == "matches"
            && let Some(Expr::Literal(LiteralValue::String(pattern))) = call.args.last().map(|one| &one.expr)
        {
            super::regex(pattern.inner())?;
        }
        Ok(match (name, first) {
            (operators::INDEX, Some(Place::Node(node))) => {
                let inner = node.items.as_deref().or(node.rest.as_deref());
                inner.map_or(Place::Any, Place::Node)
            }
            _ => Place::Any,
        })
    }
}

/// A field of what is known; an error where there is none of that name.
fn field<'a>(place: Place<'a>, name: &str) -> Result<Place<'a>, String> {
    let undefined = || Err(format!("undefined field '{name}'"));
    match place {
        Place::Any => Ok(Place::Any),
        Place::Metadata if matches!(name, "name" | "generateName") => Ok(Place::Any),
        Place::Metadata => undefined(),
        Place::Node(node) if node.resource && name == "metadata" => Ok(Place::Metadata),
        Place::Node(node) => {
            let is = |key: &str| escaped(key).as_deref() == Some(name) || is_reserved(key) && key == name;
            let declared = node.properties.iter().find(|(key, _)| is(key));
            if let Some((_, inner)) = declared {
                let format = inner.format.as_ref().map(|format| format.name());
                return match format.filter(|format| OTHERWISE_TYPED.contains(format)) {
                    Some(format) => Err(format!("memkube has no values of format {format} in rules")),
                    None => Ok(Place::Node(inner)),
                };
            }
            if node.resource && matches!(name, "apiVersion" | "kind") {
                return Ok(Place::Any);
            }
            match node.rest.as_deref() {
                Some(rest) => Ok(Place::Node(rest)),
                None if node.int_or_string || node.kind.is_none() => Ok(Place::Any),
                None => undefined(),
            }
        }
    }
}
