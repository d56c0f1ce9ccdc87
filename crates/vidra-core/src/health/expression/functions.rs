//! The functions of expressions: which there are, and what they give. Loops and optionals are evaluated with the tree.

use std::rc::Rc;

use super::{
    Stop,
    cost::Cost,
    time,
    value::{Text, Value},
};

/// A function; what it is called on is its first argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Function {
    Bool,
    CharAt,
    Contains,
    Double,
    Duration,
    Dyn,
    EndsWith,
    HasValue,
    IndexOf,
    Int,
    Join,
    LastIndexOf,
    LowerAscii,
    None,
    Of,
    OfNonZeroValue,
    Or,
    OrValue,
    Replace,
    Size,
    Split,
    StartsWith,
    String,
    Substring,
    Timestamp,
    Trim,
    Uint,
    UpperAscii,
    Value,
}

/// How a function is called.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Global,
    Method,
    Both,
}

/// Its name, how it is called, and how many arguments it has between its brackets as a method, else in all.
const FUNCTIONS: [(&str, Function, Form, [usize; 2]); 29] = [
    ("bool", Function::Bool, Form::Global, [1, 1]),
    ("charAt", Function::CharAt, Form::Method, [1, 1]),
    ("contains", Function::Contains, Form::Method, [1, 1]),
    ("double", Function::Double, Form::Global, [1, 1]),
    ("duration", Function::Duration, Form::Global, [1, 1]),
    ("dyn", Function::Dyn, Form::Global, [1, 1]),
    ("endsWith", Function::EndsWith, Form::Method, [1, 1]),
    ("hasValue", Function::HasValue, Form::Method, [0, 0]),
    ("indexOf", Function::IndexOf, Form::Method, [1, 1]),
    ("int", Function::Int, Form::Global, [1, 1]),
    ("join", Function::Join, Form::Method, [0, 1]),
    ("lastIndexOf", Function::LastIndexOf, Form::Method, [1, 1]),
    ("lowerAscii", Function::LowerAscii, Form::Method, [0, 0]),
    ("optional.none", Function::None, Form::Global, [0, 0]),
    ("optional.of", Function::Of, Form::Global, [1, 1]),
    ("optional.ofNonZeroValue", Function::OfNonZeroValue, Form::Global, [1, 1]),
    ("or", Function::Or, Form::Method, [1, 1]),
    ("orValue", Function::OrValue, Form::Method, [1, 1]),
    ("replace", Function::Replace, Form::Method, [2, 2]),
    ("size", Function::Size, Form::Both, [1, 1]),
    ("split", Function::Split, Form::Method, [1, 1]),
    ("startsWith", Function::StartsWith, Form::Method, [1, 1]),
    ("string", Function::String, Form::Global, [1, 1]),
    ("substring", Function::Substring, Form::Method, [1, 2]),
    ("timestamp", Function::Timestamp, Form::Global, [1, 1]),
    ("trim", Function::Trim, Form::Method, [0, 0]),
    ("uint", Function::Uint, Form::Global, [1, 1]),
    ("upperAscii", Function::UpperAscii, Form::Method, [0, 0]),
    ("value", Function::Value, Form::Method, [0, 0]),
];

/// The function that is meant; an error says what to write.
pub(super) fn find(name: &str, is_method: bool, given: usize) -> Result<Function, String> {
    let Some((_, function, form, [least, most])) = FUNCTIONS.iter().find(|(known, ..)| *known == name) else {
        return Err(unknown(name));
    };
    match (form, is_method) {
        (Form::Global, true) => return Err(format!("{name} is called by itself; write {name}(x)")),
        (Form::Method, false) => return Err(format!("{name} is called on a value; write x.{name}()")),
        _ => {}
    }
    // What stands before the dot is the argument.
    let given = given + usize::from(is_method && *form == Form::Both);
    match (least..=most).contains(&&given) {
        true => Ok(*function),
        false if least == most => Err(format!("{name} has {least} arguments, and here {given}")),
        false => Err(format!("{name} has {least} to {most} arguments, and here {given}")),
    }
}

/// How a loop is written.
pub(super) fn loop_usage(name: &str) -> String {
    format!(
        "write x.{name}(c, c.status == 'True'): a name and an expression; there are no loops over two names"
    )
}

/// What to write for a function of one of CEL's libraries, whose name looks like a field of the object.
pub(super) fn of_library(library: &str, name: &str) -> Option<String> {
    let instead = match (library, name) {
        ("sets", "contains") => "write a.all(x, x in b)",
        ("sets", "intersects") => "write a.exists(x, x in b)",
        ("sets", _) => "write a.all(x, x in b) && b.all(x, x in a)",
        ("base64", _) => "compare the field as it is",
        _ => return None,
    };
    Some(format!("there is no function {library}.{name}; {instead}"))
}

fn unknown(name: &str) -> String {
    let instead = match name {
        "quantity" | "isQuantity" => "quantities are not read here; compare texts, or numbers with int()",
        "transformList" | "transformMap" | "transformMapEntry" => {
            "there are no loops over two names; use map"
        }
        "type" => "types are not values here; ask with has(), or convert with string()",
        "has" => "has asks for one field; write has(status.phase)",
        "matches" => "write x.matches('^v[0-9]+$')",
        "format" => "texts are put together with +",
        _ => "",
    };
    if !instead.is_empty() {
        return format!("there is no function {name} of this form; {instead}");
    }
    let names: Vec<_> = FUNCTIONS.iter().map(|(name, ..)| *name).collect();
    format!(
        "there is no function {name}; there are all, exists, exists_one, filter, map, optMap, optFlatMap, has, matches, {}",
        names.join(", ")
    )
}

/// As it is written in an expression.
fn name_of(function: Function) -> &'static str {
    FUNCTIONS.iter().find(|(_, known, ..)| *known == function).map_or("a function", |(name, ..)| name)
}

/// What a function gives. What fits no argument is undefined.
pub(super) fn call<'a>(
    function: Function,
    arguments: &[Value<'a>],
    cost: &mut Cost,
) -> Result<Value<'a>, Stop> {
    let read = arguments.iter().map(Value::text_length).sum();
    cost.read(read)?;
    let given = match (function, arguments) {
        (Function::Dyn | Function::Of, [value]) => match function {
            Function::Of => Some(Value::some(value.clone())),
            _ => Some(value.clone()),
        },
        (Function::None, []) => Some(Value::Optional(None)),
        (Function::OfNonZeroValue, [value]) => Some(match value.is_zero() {
            true => Value::Optional(None),
            false => Value::some(value.clone()),
        }),
        (Function::HasValue, [Value::Optional(inner)]) => Some(Value::Bool(inner.is_some())),
        (Function::Value, [Value::Optional(Some(inner))]) => Some(Value::clone(inner)),
        (Function::Size, [value]) => value.size().map(Value::Int),
        (Function::Join, [list, rest @ ..]) => return join(list, rest, cost),
        (_, [Value::Text(text), rest @ ..]) => match text_function(function, text, rest, cost)? {
            Some(given) => Some(given),
            None if rest.is_empty() => of_text(function, text),
            None => None,
        },
        (_, [value]) => number(function, value, cost)?,
        _ => None,
    };
    let names = || arguments.iter().map(Value::name).collect::<Vec<_>>().join(", ");
    given.ok_or_else(|| Stop::Undefined(format!("{} gives nothing for {}", name_of(function), names())))
}

/// Functions that ask a text, or make one of it.
fn text_function<'a>(
    function: Function,
    text: &str,
    rest: &[Value<'a>],
    cost: &mut Cost,
) -> Result<Option<Value<'a>>, Stop> {
    let place = |at: Option<usize>| {
        let characters = at.map(|at| text.get(..at).unwrap_or_default().chars().count());
        characters.map_or(Value::Int(-1), Value::count)
    };
    Ok(Some(match (function, rest) {
        (Function::Contains, [Value::Text(other)]) => Value::Bool(text.contains(&**other)),
        (Function::StartsWith, [Value::Text(other)]) => Value::Bool(text.starts_with(&**other)),
        (Function::EndsWith, [Value::Text(other)]) => Value::Bool(text.ends_with(&**other)),
        (Function::IndexOf, [Value::Text(other)]) => place(text.find(&**other)),
        (Function::LastIndexOf, [Value::Text(other)]) => place(text.rfind(&**other)),
        (Function::LowerAscii, []) => cost.text(text.len(), || text.to_ascii_lowercase())?,
        (Function::UpperAscii, []) => cost.text(text.len(), || text.to_ascii_uppercase())?,
        (Function::Trim, []) => cost.text(text.len(), || text.trim().to_owned())?,
        (Function::String, []) => cost.text(text.len(), || text.to_owned())?,
        (Function::Replace, [Value::Text(from), Value::Text(to)]) => {
            let length = text.matches(&**from).count().saturating_mul(to.len()).saturating_add(text.len());
            cost.text(length, || text.replace(&**from, to))?
        }
        (Function::Split, [Value::Text(by)]) => {
            cost.items(text.split(&**by).count())?;
            let parts = text.split(&**by).map(|part| cost.text(part.len(), || part.to_owned()));
            Value::List(Rc::new(parts.collect::<Result<_, _>>()?))
        }
        (Function::CharAt, [Value::Int(at)]) => return part(text, *at, at.checked_add(1), cost),
        (Function::Substring, [Value::Int(from)]) => return part(text, *from, None, cost),
        (Function::Substring, [Value::Int(from), Value::Int(to)]) => {
            return part(text, *from, Some(*to), cost);
        }
        _ => return Ok(None),
    }))
}

/// Characters of a text; None where it has fewer.
fn part<'a>(text: &str, from: i64, to: Option<i64>, cost: &mut Cost) -> Result<Option<Value<'a>>, Stop> {
    let length = i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
    let to = to.unwrap_or(length);
    let (Ok(skip), Ok(count)) = (usize::try_from(from), usize::try_from(to.saturating_sub(from))) else {
        return Ok(None);
    };
    if to > length {
        return Ok(None);
    }
    cost.text(text.len(), || text.chars().skip(skip).take(count).collect()).map(Some)
}

/// What a text is converted to.
fn of_text<'a>(function: Function, text: &str) -> Option<Value<'a>> {
    match function {
        Function::Int => text.parse().ok().map(Value::Int),
        Function::Uint => text.parse().ok().filter(|value| *value >= 0).map(Value::Int),
        Function::Double => text.parse().ok().map(Value::Double),
        Function::Bool => match text {
            "true" | "True" | "TRUE" | "t" | "1" => Some(Value::Bool(true)),
            "false" | "False" | "FALSE" | "f" | "0" => Some(Value::Bool(false)),
            _ => None,
        },
        Function::Timestamp => time::timestamp(text).map(Value::Time),
        Function::Duration => time::duration(text).map(Value::Span),
        _ => None,
    }
}

/// What a number, a bool or a time is converted to.
fn number<'a>(function: Function, value: &Value<'a>, cost: &mut Cost) -> Result<Option<Value<'a>>, Stop> {
    Ok(match (function, value) {
        (Function::Int, Value::Int(_))
        | (Function::Double, Value::Double(_))
        | (Function::Bool, Value::Bool(_))
        | (Function::Timestamp, Value::Time(_))
        | (Function::Duration, Value::Span(_)) => Some(value.clone()),
        (Function::Uint, Value::Int(number)) => (*number >= 0).then(|| value.clone()),
        // 2^63 is the first that does not fit.
        (Function::Int | Function::Uint, Value::Double(number)) => {
            let fits =
                number.abs() < 9_223_372_036_854_775_808.0 && (function == Function::Int || *number >= 0.0);
            fits.then_some(Value::Int(*number as i64))
        }
        (Function::Int, Value::Time(nanos)) => {
            i64::try_from(nanos.div_euclid(1_000_000_000)).ok().map(Value::Int)
        }
        (Function::Double, Value::Int(number)) => Some(Value::Double(*number as f64)),
        (Function::String, Value::Int(number)) => Some(cost.text(20, || number.to_string())?),
        (Function::String, Value::Double(number)) => Some(cost.text(330, || number.to_string())?),
        (Function::String, Value::Bool(truth)) => Some(cost.text(5, || truth.to_string())?),
        _ => None,
    })
}

fn join<'a>(list: &Value<'a>, rest: &[Value<'a>], cost: &mut Cost) -> Result<Value<'a>, Stop> {
    let between = match rest {
        [] => "",
        [Value::Text(text)] => text,
        _ => return Err(Stop::Undefined("join takes a text to stand between".to_owned())),
    };
    cost.all(list)?;
    let items = list.items().ok_or_else(|| Stop::Undefined("join is for lists".to_owned()))?;
    let texts = items.iter().map(|item| match item {
        Value::Text(text) => Ok(text),
        other => {
            Err(Stop::Undefined(format!("join is for lists of texts, and one item is {}", other.name())))
        }
    });
    let texts: Vec<&Text<'_>> = texts.collect::<Result<_, _>>()?;
    let length = texts.iter().map(|text| text.len() + between.len()).sum();
    cost.text(length, || texts.iter().map(|text| &***text).collect::<Vec<&str>>().join(between))
}
