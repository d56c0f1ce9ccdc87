//! One walk over an expression's tree. Every step is counted; what is undefined stays so through `!`, and goes through
//! `&&` and `||` only where the other side decides, as CEL has it.

use std::{collections::BTreeMap, rc::Rc};

use super::{
    ITEMS_MAX, Stop,
    cost::{Cost, NO_BYTES_LEFT, NO_STEPS_LEFT, TOO_MANY_BYTES, TOO_MANY_STEPS},
    functions::{self, Function},
    tree::{Item, Kind, Loop, LoopKind, Node, Operator},
    value::{Text, Value},
    view::View,
};
use crate::mutants::{self, Mutant};

pub(super) struct Evaluation<'a> {
    view: &'a View<'a>,
    /// What it may take, and what is left of that.
    given: Cost,
    cost: Cost,
    /// The items that the loops one is in are at.
    variables: Vec<(&'a str, Value<'a>)>,
}

type Given<'a> = Result<Value<'a>, Stop>;

fn no_value<'a>(what: impl Into<String>) -> Given<'a> {
    Err(Stop::Undefined(what.into()))
}

impl<'a> Evaluation<'a> {
    pub(super) fn new(view: &'a View<'a>) -> Evaluation<'a> {
        let given =
            if mutants::is(Mutant::EachCostsAlone) { Cost::of(1) } else { Cost::of(1).at_most(view.left()) };
        Evaluation { view, given, cost: given, variables: Vec::new() }
    }

    /// What the expression gives; what it took is taken from what the view has left.
    pub(super) fn run(mut self, node: &'a Node) -> Given<'a> {
        let value = self.value(node);
        self.view.take(self.given.without(self.cost));
        let one = Cost::of(1);
        value.map_err(|stop| match stop {
            Stop::Costly(TOO_MANY_STEPS) if self.given.steps < one.steps => Stop::Costly(NO_STEPS_LEFT),
            Stop::Costly(TOO_MANY_BYTES) if self.given.bytes < one.bytes => Stop::Costly(NO_BYTES_LEFT),
            other => other,
        })
    }

    fn value(&mut self, node: &'a Node) -> Given<'a> {
        self.cost.steps(1)?;
        match &node.kind {
            Kind::Null => Ok(Value::Null),
            Kind::Bool(truth) => Ok(Value::Bool(*truth)),
            Kind::Int(number) => Ok(Value::Int(*number)),
            Kind::Double(number) => Ok(Value::Double(*number)),
            Kind::Text(text) => Ok(Value::Text(Text::Lent(text))),
            Kind::Root(name) => self.root(name),
            Kind::Variable(name) => self.variable(name),
            Kind::Select { of, field, is_optional } => self.select(of, field, *is_optional),
            Kind::Has { of, field } => self.has(of, field),
            Kind::Index { of, key, is_optional } => self.index(of, key, *is_optional),
            Kind::Not(of) => match self.truth(of) {
                Err(Stop::Undefined(_)) if mutants::is(Mutant::MissingFieldHolds) => Ok(Value::Bool(true)),
                truth => Ok(Value::Bool(!truth?)),
            },
            Kind::Negative(of) => self.negative(of),
            Kind::All(parts) => self.chain(parts, false),
            Kind::Any(parts) => self.chain(parts, true),
            Kind::Binary(operator, one, other) => self.binary(*operator, one, other),
            Kind::Choice(condition, one, other) => {
                let chosen = if self.truth(condition)? { one } else { other };
                self.value(chosen)
            }
            Kind::List(items) => self.list(items),
            Kind::Map(entries) => self.map(entries),
            Kind::Loop(parts) => self.repeat(parts),
            Kind::Call { function, of, arguments } => self.call(*function, of.as_deref(), arguments),
            Kind::Matches(of, pattern) => match self.value(of)? {
                Value::Text(text) => {
                    self.cost.steps(pattern.steps(text.len()))?;
                    Ok(Value::Bool(pattern.is_match(&text)))
                }
                other => no_value(format!("matches is for texts, and this is {}", other.name())),
            },
        }
    }

    fn root(&self, name: &str) -> Given<'a> {
        match self.view.root(name) {
            Some(json) => Ok(Value::of_json(json)),
            None => no_value(format!("the object has no {name}")),
        }
    }

    fn variable(&self, name: &str) -> Given<'a> {
        match self.variables.iter().rev().find(|(known, _)| *known == name) {
            Some((_, value)) => Ok(value.clone()),
            None => no_value(format!("there is no {name}")),
        }
    }

    fn truth(&mut self, node: &'a Node) -> Result<bool, Stop> {
        match self.value(node)? {
            Value::Bool(truth) => Ok(truth),
            other => Err(Stop::Undefined(format!("{} is neither true nor false", other.name()))),
        }
    }

    /// An optional that was chosen from goes on as one.
    fn select(&mut self, of: &'a Node, field: &str, is_optional: bool) -> Given<'a> {
        let of = self.value(of)?;
        match &of {
            Value::Optional(inner) => {
                Ok(Value::Optional(inner.as_ref().and_then(|inner| inner.get(field)).map(Rc::new)))
            }
            map if map.is_map() => match (map.get(field), is_optional) {
                (found, true) => Ok(Value::Optional(found.map(Rc::new))),
                (Some(value), false) => Ok(value),
                (None, false) => no_value(format!("there is no field {field}")),
            },
            other => no_value(format!("{} has no field {field}", other.name())),
        }
    }

    fn has(&mut self, of: &'a Node, field: &str) -> Given<'a> {
        match self.value(of)? {
            Value::Optional(inner) => Ok(Value::Bool(inner.is_some_and(|inner| inner.get(field).is_some()))),
            map if map.is_map() => Ok(Value::Bool(map.get(field).is_some())),
            other => no_value(format!("{} has no fields", other.name())),
        }
    }

    fn index(&mut self, of: &'a Node, key: &'a Node, is_optional: bool) -> Given<'a> {
        let (of, key) = (self.value(of)?, self.value(key)?);
        self.cost.read(key.text_length())?;
        let (of, is_optional) = match of {
            Value::Optional(None) => return Ok(Value::Optional(None)),
            Value::Optional(Some(inner)) => (Value::clone(&inner), true),
            of => (of, is_optional),
        };
        let found = match &key {
            Value::Int(at) if of.is_list() => of.at(*at),
            Value::Text(key) if of.is_map() => of.get(key),
            _ => return no_value(format!("{} has no item by {}", of.name(), key.name())),
        };
        match (found, is_optional) {
            (found, true) => Ok(Value::Optional(found.map(Rc::new))),
            (Some(value), false) => Ok(value),
            (None, false) => no_value(format!("{} has no such item", of.name())),
        }
    }

    fn negative(&mut self, of: &'a Node) -> Given<'a> {
        let negative = match self.value(of)? {
            Value::Int(number) => number.checked_neg().map(Value::Int),
            Value::Double(number) => Some(Value::Double(-number)),
            Value::Span(nanos) => nanos.checked_neg().map(Value::Span),
            other => return no_value(format!("there is no - of {}", other.name())),
        };
        negative.ok_or_else(|| Stop::Undefined("it is too large".into()))
    }

    /// One part that is `decisive` decides, whatever the others are.
    fn chain(&mut self, parts: &'a [Node], decisive: bool) -> Given<'a> {
        let mut open = None;
        for part in parts {
            match self.truth(part) {
                Ok(truth) if truth == decisive => return Ok(Value::Bool(decisive)),
                Ok(_) => {}
                Err(Stop::Costly(why)) => return Err(Stop::Costly(why)),
                Err(stop) => open = open.or(Some(stop)),
            }
        }
        open.map_or(Ok(Value::Bool(!decisive)), Err)
    }

    fn binary(&mut self, operator: Operator, one: &'a Node, other: &'a Node) -> Given<'a> {
        let (one, other) = (self.value(one)?, self.value(other)?);
        self.cost.read(one.text_length() + other.text_length())?;
        let order = || one.order(&other).ok_or(());
        let compared = match operator {
            Operator::Equal => Ok(self.is_equal(&one, &other)?),
            Operator::Unequal => Ok(!self.is_equal(&one, &other)?),
            Operator::In => return self.is_in(&one, &other).map(Value::Bool),
            Operator::Less => order().map(|order| order.is_lt()),
            Operator::LessOrEqual => order().map(|order| order.is_le()),
            Operator::Greater => order().map(|order| order.is_gt()),
            Operator::GreaterOrEqual => order().map(|order| order.is_ge()),
            _ => return self.arithmetic(operator, &one, &other),
        };
        let unfit = |()| Stop::Undefined(format!("{} and {} are not compared", one.name(), other.name()));
        compared.map(Value::Bool).map_err(unfit)
    }

    fn is_equal(&mut self, one: &Value<'a>, other: &Value<'a>) -> Result<bool, Stop> {
        self.cost.steps(1)?;
        self.cost.read(one.text_length().min(other.text_length()))?;
        if (one.is_list() && other.is_list() || one.is_map() && other.is_map()) && one.size() != other.size()
        {
            return Ok(false);
        }
        self.cost.all(one)?;
        if one.is_list() && other.is_list() {
            let (one, other) = (one.items().unwrap_or_default(), other.items().unwrap_or_default());
            let mut pairs = one.iter().zip(&other);
            return pairs.try_fold(true, |equal, (one, other)| Ok(equal && self.is_equal(one, other)?));
        }
        if one.is_map() && other.is_map() {
            for key in one.items().unwrap_or_default() {
                let Value::Text(key) = key else { return Ok(false) };
                self.cost.read(key.len())?;
                let (Some(one), Some(other)) = (one.get(&key), other.get(&key)) else { return Ok(false) };
                if !self.is_equal(&one, &other)? {
                    return Ok(false);
                }
            }
            return Ok(true);
        }
        Ok(match (one, other) {
            (Value::Null, Value::Null) | (Value::Optional(None), Value::Optional(None)) => true,
            (Value::Optional(Some(one)), Value::Optional(Some(other))) => self.is_equal(one, other)?,
            (one, other) => one.order(other).is_some_and(|order| order.is_eq()),
        })
    }

    fn is_in(&mut self, one: &Value<'a>, other: &Value<'a>) -> Result<bool, Stop> {
        if let (Value::Text(key), true) = (one, other.is_map()) {
            return Ok(other.get(key).is_some());
        }
        if !other.is_list() {
            return Err(Stop::Undefined(format!("{} is not looked for in {}", one.name(), other.name())));
        }
        for item in self.items(other)? {
            if self.is_equal(one, &item)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn arithmetic(&mut self, operator: Operator, one: &Value<'a>, other: &Value<'a>) -> Given<'a> {
        let given = match (operator, one, other) {
            (_, Value::Int(one), Value::Int(other)) => match operator {
                Operator::Add => one.checked_add(*other),
                Operator::Subtract => one.checked_sub(*other),
                Operator::Multiply => one.checked_mul(*other),
                Operator::Divide => one.checked_div(*other),
                _ => one.checked_rem(*other),
            }
            .map(Value::Int),
            (_, Value::Double(one), Value::Double(other)) => match operator {
                Operator::Add => Some(one + other),
                Operator::Subtract => Some(one - other),
                Operator::Multiply => Some(one * other),
                Operator::Divide => Some(one / other),
                _ => None,
            }
            .map(Value::Double),
            (Operator::Add, Value::Text(one), Value::Text(other)) => {
                return self.cost.text(one.len() + other.len(), || format!("{}{}", &**one, &**other));
            }
            (Operator::Add, one, other) if one.is_list() && other.is_list() => {
                let mut items = self.items(one)?;
                items.extend(self.items(other)?);
                self.cost.items(items.len())?;
                Some(Value::List(Rc::new(items)))
            }
            (Operator::Add, Value::Time(time), Value::Span(span))
            | (Operator::Add, Value::Span(span), Value::Time(time)) => {
                time.checked_add(*span).map(Value::Time)
            }
            (Operator::Subtract, Value::Time(time), Value::Span(span)) => {
                time.checked_sub(*span).map(Value::Time)
            }
            (Operator::Subtract, Value::Time(one), Value::Time(other))
            | (Operator::Subtract, Value::Span(one), Value::Span(other)) => {
                one.checked_sub(*other).map(Value::Span)
            }
            (Operator::Add, Value::Span(one), Value::Span(other)) => one.checked_add(*other).map(Value::Span),
            _ => None,
        };
        let unfit = || Stop::Undefined(format!("{} and {} give no value", one.name(), other.name()));
        given.ok_or_else(unfit)
    }

    /// A value that is left out where it is an optional without one.
    fn item(&mut self, item: &'a Item) -> Result<Option<Value<'a>>, Stop> {
        match (self.value(&item.value)?, item.is_optional) {
            (Value::Optional(inner), true) => Ok(inner.map(|inner| Value::clone(&inner))),
            (other, true) => Err(Stop::Undefined(format!("{} is no optional", other.name()))),
            (value, false) => Ok(Some(value)),
        }
    }

    fn list(&mut self, items: &'a [Item]) -> Given<'a> {
        self.cost.items(items.len())?;
        let mut all = Vec::new();
        for item in items {
            all.extend(self.item(item)?);
        }
        Ok(Value::List(Rc::new(all)))
    }

    fn map(&mut self, entries: &'a [(Node, Item)]) -> Given<'a> {
        self.cost.items(entries.len())?;
        let mut all = BTreeMap::new();
        for (key, item) in entries {
            let Value::Text(key) = self.value(key)? else {
                return no_value("keys of maps are texts; write them in quotes");
            };
            self.cost.bytes(key.len())?;
            if let Some(value) = self.item(item)? {
                all.insert(key.shared(), value);
            }
        }
        Ok(Value::Map(Rc::new(all)))
    }

    /// What a loop goes over, bounded and counted.
    fn items(&mut self, over: &Value<'a>) -> Result<Vec<Value<'a>>, Stop> {
        // Of a text that would be to count its characters, which no step pays for.
        let size = if matches!(over, Value::Text(_)) { None } else { over.size() };
        if size.and_then(|size| usize::try_from(size).ok()).is_some_and(|size| size > ITEMS_MAX) {
            return Err(Stop::Costly("a loop goes over more than 1,024 items"));
        }
        let items = over.items();
        let items = items.ok_or_else(|| Stop::Undefined(format!("{} is no list", over.name())))?;
        self.cost.all(over)?;
        Ok(items)
    }

    /// What a part gives for an item.
    fn with(&mut self, parts: &'a Loop, node: &'a Node, item: Value<'a>) -> Given<'a> {
        self.variables.push((&parts.name, item));
        let given = self.value(node);
        self.variables.pop();
        given
    }

    fn holds(&mut self, parts: &'a Loop, node: &'a Node, item: Value<'a>) -> Result<bool, Stop> {
        match self.with(parts, node, item)? {
            Value::Bool(truth) => Ok(truth),
            other => Err(Stop::Undefined(format!("{} is neither true nor false", other.name()))),
        }
    }

    fn repeat(&mut self, parts: &'a Loop) -> Given<'a> {
        let over = self.value(&parts.over)?;
        if matches!(parts.kind, LoopKind::OptionalMap | LoopKind::OptionalFlatMap) {
            return match over {
                Value::Optional(None) => Ok(over),
                Value::Optional(Some(inner)) => {
                    let given = self.with(parts, &parts.body, Value::clone(&inner))?;
                    let is_flat = parts.kind == LoopKind::OptionalFlatMap;
                    Ok(if is_flat { given } else { Value::some(given) })
                }
                other => no_value(format!("{} is no optional", other.name())),
            };
        }
        let items = self.items(&over)?;
        match parts.kind {
            LoopKind::All if items.is_empty() && parts.is_open && !mutants::is(Mutant::EmptyListHolds) => {
                no_value("all has nothing to ask")
            }
            LoopKind::All => self.ask(parts, items, false),
            LoopKind::Exists => self.ask(parts, items, true),
            LoopKind::ExistsOne => {
                let mut count = 0usize;
                for item in items {
                    count += usize::from(self.holds(parts, &parts.body, item)?);
                }
                Ok(Value::Bool(count == 1))
            }
            LoopKind::Filter => self.select_items(parts, items),
            _ => self.map_items(parts, items),
        }
    }

    /// As a chain of `&&` or `||`.
    fn ask(&mut self, parts: &'a Loop, items: Vec<Value<'a>>, decisive: bool) -> Given<'a> {
        let mut open = None;
        for item in items {
            match self.holds(parts, &parts.body, item) {
                Ok(truth) if truth == decisive => return Ok(Value::Bool(decisive)),
                Ok(_) => {}
                Err(Stop::Costly(why)) => return Err(Stop::Costly(why)),
                Err(stop) => open = open.or(Some(stop)),
            }
        }
        open.map_or(Ok(Value::Bool(!decisive)), Err)
    }

    fn select_items(&mut self, parts: &'a Loop, items: Vec<Value<'a>>) -> Given<'a> {
        let mut all = Vec::new();
        for item in items {
            if self.holds(parts, &parts.body, item.clone())? {
                self.cost.items(1)?;
                all.push(item);
            }
        }
        Ok(Value::List(Rc::new(all)))
    }

    fn map_items(&mut self, parts: &'a Loop, items: Vec<Value<'a>>) -> Given<'a> {
        let mut all = Vec::new();
        for item in items {
            if let Some(filter) = &parts.filter
                && !self.holds(parts, filter, item.clone())?
            {
                continue;
            }
            self.cost.items(1)?;
            all.push(self.with(parts, &parts.body, item)?);
        }
        Ok(Value::List(Rc::new(all)))
    }

    fn call(&mut self, function: Function, of: Option<&'a Node>, arguments: &'a [Node]) -> Given<'a> {
        let mut given = Vec::with_capacity(1 + arguments.len());
        if let Some(node) = of {
            given.push(self.value(node)?);
        }
        // What stands in for nothing is asked only where there is nothing.
        if let (Function::Or | Function::OrValue, [Value::Optional(inner)], [instead]) =
            (function, &given[..], arguments)
        {
            return match (inner, function) {
                (None, _) => self.value(instead),
                (Some(inner), Function::OrValue) => Ok(Value::clone(inner)),
                (Some(_), _) => Ok(given.remove(0)),
            };
        }
        for node in arguments {
            given.push(self.value(node)?);
        }
        functions::call(function, &given, &mut self.cost)
    }
}
