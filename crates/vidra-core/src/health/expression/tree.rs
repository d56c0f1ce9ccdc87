//! The tree of an expression.

use std::collections::BTreeSet;

use super::{Path, functions::Function, pattern::Pattern};

/// A part of an expression.
#[derive(Debug)]
pub(super) struct Node {
    /// Its place in the text, in characters.
    pub(super) at: usize,
    /// How many parts stand below each other at most, itself counted.
    pub(super) height: usize,
    pub(super) kind: Kind,
}

/// What a part does.
#[derive(Debug)]
pub(super) enum Kind {
    Null,
    Bool(bool),
    Int(i64),
    Double(f64),
    Text(String),
    /// A top-level field of the object.
    Root(String),
    /// The name that a loop gives to its items.
    Variable(String),
    /// `of.field`; `of.?field`.
    Select {
        of: Box<Node>,
        field: String,
        is_optional: bool,
    },
    /// `has(of.field)`.
    Has {
        of: Box<Node>,
        field: String,
    },
    /// `of[key]`; `of[?key]`.
    Index {
        of: Box<Node>,
        key: Box<Node>,
        is_optional: bool,
    },
    Not(Box<Node>),
    Negative(Box<Node>),
    /// One and all of a chain of `&&`: chains are flat, so that their length is no depth.
    All(Vec<Node>),
    Any(Vec<Node>),
    Binary(Operator, Box<Node>, Box<Node>),
    Choice(Box<Node>, Box<Node>, Box<Node>),
    List(Vec<Item>),
    Map(Vec<(Node, Item)>),
    Loop(Box<Loop>),
    Call {
        function: Function,
        of: Option<Box<Node>>,
        arguments: Vec<Node>,
    },
    /// With its pattern, compiled once.
    Matches(Box<Node>, Pattern),
}

/// An item of a list or map as it is written.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) value: Node,
    /// `[?x]`: left out where it is nothing.
    pub(super) is_optional: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    In,
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

/// `over.all(name, body)`, and its like.
#[derive(Debug)]
pub(super) struct Loop {
    pub(super) kind: LoopKind,
    pub(super) over: Node,
    pub(super) name: String,
    /// What an item must be, for `map` with three arguments; else what is asked of it.
    pub(super) filter: Option<Node>,
    pub(super) body: Node,
    /// Whether what it goes over comes from the status, or from a filter: to find nothing there is to know nothing.
    pub(super) is_open: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LoopKind {
    All,
    Exists,
    ExistsOne,
    Filter,
    Map,
    /// `optional.optMap(name, body)`.
    OptionalMap,
    OptionalFlatMap,
}

impl LoopKind {
    /// The loop of this name.
    pub(super) fn by_name(name: &str) -> Option<LoopKind> {
        Some(match name {
            "all" => LoopKind::All,
            "exists" => LoopKind::Exists,
            "exists_one" | "existsOne" => LoopKind::ExistsOne,
            "filter" => LoopKind::Filter,
            "map" => LoopKind::Map,
            "optMap" => LoopKind::OptionalMap,
            "optFlatMap" => LoopKind::OptionalFlatMap,
            _ => return None,
        })
    }
}

impl Node {
    pub(super) fn new(at: usize, kind: Kind) -> Node {
        let mut node = Node { at, height: 0, kind };
        node.height = 1 + node.children().iter().map(|child| child.height).max().unwrap_or(0);
        node
    }

    /// The parts right below it.
    pub(super) fn children(&self) -> Vec<&Node> {
        match &self.kind {
            Kind::Null | Kind::Bool(_) | Kind::Int(_) | Kind::Double(_) | Kind::Text(_) => Vec::new(),
            Kind::Root(_) | Kind::Variable(_) => Vec::new(),
            Kind::Select { of, .. } | Kind::Has { of, .. } => vec![of],
            Kind::Not(of) | Kind::Negative(of) | Kind::Matches(of, _) => vec![of],
            Kind::Index { of: one, key: other, .. } | Kind::Binary(_, one, other) => vec![one, other],
            Kind::All(parts) | Kind::Any(parts) => parts.iter().collect(),
            Kind::Choice(condition, one, other) => vec![condition, one, other],
            Kind::List(items) => items.iter().map(|item| &item.value).collect(),
            Kind::Map(entries) => entries.iter().flat_map(|(key, item)| [key, &item.value]).collect(),
            Kind::Loop(looped) => [&looped.over, &looped.body].into_iter().chain(&looped.filter).collect(),
            Kind::Call { of, arguments, .. } => of.as_deref().into_iter().chain(arguments).collect(),
        }
    }

    /// How many patterns it and what is below it have.
    pub(super) fn patterns(&self) -> usize {
        let below: usize = self.children().into_iter().map(Node::patterns).sum();
        below + usize::from(matches!(self.kind, Kind::Matches(..)))
    }

    /// The path of fields that it is, if it is one.
    fn path(&self) -> Option<Path> {
        let (of, field) = match &self.kind {
            Kind::Root(name) => return Some(vec![name.clone()]),
            Kind::Select { of, field, .. } | Kind::Has { of, field } => (of, field),
            Kind::Index { of, key, .. } => match &key.kind {
                Kind::Text(field) => (of, field),
                _ => return None,
            },
            _ => return None,
        };
        let mut path = of.path()?;
        path.push(field.clone());
        Some(path)
    }

    /// Notes the fields that it names, each as far down as it is known.
    pub(super) fn paths(&self, all: &mut BTreeSet<Path>) {
        match self.path() {
            Some(path) => {
                all.insert(path);
            }
            None => self.children().into_iter().for_each(|child| child.paths(all)),
        }
    }
}
