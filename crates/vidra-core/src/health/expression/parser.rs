//! Reads an expression into its tree: CEL's grammar, by descent, as deep as the bounds allow and no deeper.

use super::{
    DEPTH_MAX, Fault, NESTING_MAX, functions,
    lexer::{self, Word},
    pattern::Pattern,
    tree::{Item, Kind, Loop, LoopKind, Node, Operator},
};

/// How many patterns one expression may have: each is compiled, and kept.
pub(crate) const PATTERNS_MAX: usize = 4;

/// Binary operators that bind alike, from the loosest.
const LEVELS: [&[(&str, Operator)]; 3] = [
    &[
        ("==", Operator::Equal),
        ("!=", Operator::Unequal),
        ("<", Operator::Less),
        ("<=", Operator::LessOrEqual),
        (">", Operator::Greater),
        (">=", Operator::GreaterOrEqual),
        ("in", Operator::In),
    ],
    &[("+", Operator::Add), ("-", Operator::Subtract)],
    &[("*", Operator::Multiply), ("/", Operator::Divide), ("%", Operator::Remainder)],
];

struct Parser {
    words: Vec<(usize, Word)>,
    next: usize,
    nesting: usize,
    depth: usize,
    /// The names of the loops that one is in, and whether what they go over is open.
    scope: Vec<(String, bool)>,
    /// How many patterns there were.
    patterns: usize,
}

type Parsed = Result<Node, Fault>;

/// Reads a whole text.
pub(super) fn parse(text: &str) -> Parsed {
    let words = lexer::words(text)?;
    let mut parser = Parser { words, next: 0, nesting: 0, depth: 0, scope: Vec::new(), patterns: 0 };
    if parser.word() == &Word::End {
        return Err(parser.fault("the expression is empty; leave the field out"));
    }
    let node = parser.expression()?;
    match parser.word() {
        Word::End => Ok(node),
        _ => {
            Err(parser.fault("an operator is missing before this, such as &&, or a bracket is closed twice"))
        }
    }
}

impl Parser {
    fn word(&self) -> &Word {
        self.words.get(self.next).map_or(&Word::End, |(_, word)| word)
    }

    fn place(&self) -> usize {
        self.words.get(self.next).or(self.words.last()).map_or(0, |(at, _)| *at)
    }

    fn fault(&self, what: impl Into<String>) -> Fault {
        Fault::new(self.place(), what)
    }

    fn is(&self, sign: &str) -> bool {
        matches!(self.word(), Word::Sign(word) if *word == sign)
    }

    fn eat(&mut self, sign: &str) -> bool {
        let is = self.is(sign);
        self.next += usize::from(is);
        is
    }

    fn expect(&mut self, sign: &str) -> Result<(), Fault> {
        match self.eat(sign) {
            true => Ok(()),
            false => Err(self.fault(format!("{sign} is missing here"))),
        }
    }

    fn node(&self, at: usize, kind: Kind) -> Parsed {
        let node = Node::new(at, kind);
        match node.height <= DEPTH_MAX {
            true => Ok(node),
            false => Err(too_deep(at)),
        }
    }

    /// Counts a bracket that was just read.
    fn open(&mut self) -> Result<(), Fault> {
        self.nesting += 1;
        match self.nesting <= NESTING_MAX {
            true => Ok(()),
            false => Err(self.fault(format!(
                "there are more than {NESTING_MAX} brackets within brackets; make it simpler"
            ))),
        }
    }

    fn close(&mut self, sign: &str) -> Result<(), Fault> {
        self.nesting -= 1;
        self.expect(sign)
    }

    fn expression(&mut self) -> Parsed {
        let at = self.place();
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(too_deep(at));
        }
        let mut node = self.any()?;
        if self.eat("?") {
            let one = self.any()?;
            self.expect(":")?;
            let other = self.expression()?;
            node = self.node(at, Kind::Choice(Box::new(node), Box::new(one), Box::new(other)))?;
        }
        self.depth -= 1;
        Ok(node)
    }

    fn any(&mut self) -> Parsed {
        let (at, first) = (self.place(), self.all()?);
        let mut parts = vec![first];
        while self.eat("||") {
            parts.push(self.all()?);
        }
        self.chain(at, parts, Kind::Any)
    }

    fn all(&mut self) -> Parsed {
        let (at, first) = (self.place(), self.binary(0)?);
        let mut parts = vec![first];
        while self.eat("&&") {
            parts.push(self.binary(0)?);
        }
        self.chain(at, parts, Kind::All)
    }

    fn chain(&self, at: usize, mut parts: Vec<Node>, kind: fn(Vec<Node>) -> Kind) -> Parsed {
        match (parts.len(), parts.pop()) {
            (1, Some(only)) => Ok(only),
            (_, last) => {
                parts.extend(last);
                self.node(at, kind(parts))
            }
        }
    }

    fn binary(&mut self, level: usize) -> Parsed {
        let Some(operators) = LEVELS.get(level) else { return self.unary() };
        let mut left = self.binary(level + 1)?;
        loop {
            let at = self.place();
            let found = operators.iter().find(|(text, _)| match self.word() {
                Word::Sign(sign) => sign == text,
                Word::Name(name) => name == text,
                _ => false,
            });
            let Some((_, operator)) = found else { return Ok(left) };
            self.next += 1;
            let right = self.binary(level + 1)?;
            left = self.node(at, Kind::Binary(*operator, Box::new(left), Box::new(right)))?;
        }
    }

    fn unary(&mut self) -> Parsed {
        let mut signs = Vec::new();
        while self.is("!") || self.is("-") {
            signs.push((self.place(), self.is("!")));
            self.next += 1;
        }
        let mut node = self.member()?;
        for (at, is_not) in signs.into_iter().rev() {
            let of = Box::new(node);
            node = self.node(at, if is_not { Kind::Not(of) } else { Kind::Negative(of) })?;
        }
        Ok(node)
    }

    fn member(&mut self) -> Parsed {
        let mut node = self.primary()?;
        loop {
            let at = self.place();
            if self.eat(".") {
                let is_optional = self.eat("?");
                let at = self.place();
                let field = self.name()?;
                node = match self.is("(") && !is_optional {
                    true => self.method(at, node, &field)?,
                    false => self.node(at, Kind::Select { of: Box::new(node), field, is_optional })?,
                };
            } else if self.eat("[") {
                self.open()?;
                let is_optional = self.eat("?");
                let key = Box::new(self.expression()?);
                self.close("]")?;
                node = self.node(at, Kind::Index { of: Box::new(node), key, is_optional })?;
            } else {
                return Ok(node);
            }
        }
    }

    fn name(&mut self) -> Result<String, Fault> {
        match self.word() {
            Word::Name(name) => {
                let name = name.clone();
                self.next += 1;
                Ok(name)
            }
            _ => Err(self.fault("a name is missing here; write keys that are no names as ['a key']")),
        }
    }

    fn primary(&mut self) -> Parsed {
        let at = self.place();
        let word = self.word().clone();
        self.next += 1;
        match word {
            Word::Int(value) => self.node(at, Kind::Int(value)),
            Word::Double(value) => self.node(at, Kind::Double(value)),
            Word::Text(value) => self.node(at, Kind::Text(value)),
            Word::Name(name) => self.word_node(at, name),
            Word::Sign("(") => {
                self.open()?;
                let node = self.expression()?;
                self.close(")")?;
                Ok(node)
            }
            Word::Sign("[") => self.list(at),
            Word::Sign("{") => self.map(at),
            // As in a JSONPath.
            Word::Sign(".") => {
                Err(Fault::new(at, "a value is missing before .; write status.x and not .status.x"))
            }
            Word::Sign(sign) => Err(Fault::new(at, format!("a value is missing before {sign}"))),
            Word::End => Err(Fault::new(at, "the expression ends where a value is missing")),
        }
    }

    fn word_node(&mut self, at: usize, name: String) -> Parsed {
        match name.as_str() {
            "true" | "false" => return self.node(at, Kind::Bool(name == "true")),
            "null" => return self.node(at, Kind::Null),
            "in" => return Err(Fault::new(at, "a value is missing before in")),
            _ => {}
        }
        if self.is("(") {
            return self.function(at, &name);
        }
        if self.is("{") {
            return Err(Fault::new(at, "there are no messages here; write a map, as in {'key': 'value'}"));
        }
        if self.scope.iter().any(|(known, _)| *known == name) {
            return self.node(at, Kind::Variable(name));
        }
        // As in admission policies and CRDs. It would be a field that no object has, and the rule never true.
        if matches!(name.as_str(), "object" | "oldObject" | "self") {
            let what = format!(
                "{name} is not there; the object's fields are, write status.x and not {name}.status.x"
            );
            return Err(Fault::new(at, what));
        }
        self.node(at, Kind::Root(name))
    }

    fn list(&mut self, at: usize) -> Parsed {
        self.open()?;
        let mut items = Vec::new();
        while !self.is("]") {
            let is_optional = self.eat("?");
            items.push(Item { value: self.expression()?, is_optional });
            if !self.eat(",") {
                break;
            }
        }
        self.close("]")?;
        self.node(at, Kind::List(items))
    }

    fn map(&mut self, at: usize) -> Parsed {
        self.open()?;
        let mut entries = Vec::new();
        while !self.is("}") {
            let is_optional = self.eat("?");
            let key = self.expression()?;
            self.expect(":")?;
            entries.push((key, Item { value: self.expression()?, is_optional }));
            if !self.eat(",") {
                break;
            }
        }
        self.close("}")?;
        self.node(at, Kind::Map(entries))
    }

    /// The values between the brackets of a call.
    fn arguments(&mut self) -> Result<Vec<Node>, Fault> {
        self.expect("(")?;
        self.open()?;
        let mut all = Vec::new();
        while !self.is(")") {
            all.push(self.expression()?);
            if !self.eat(",") {
                break;
            }
        }
        self.close(")")?;
        Ok(all)
    }

    fn function(&mut self, at: usize, name: &str) -> Parsed {
        let mut arguments = self.arguments()?;
        match (name, arguments.len()) {
            ("has", 1) => match arguments.pop().map(|only| only.kind) {
                Some(Kind::Select { of, field, .. }) => self.node(at, Kind::Has { of, field }),
                _ => Err(Fault::new(at, "has asks for a field of something; write has(status.phase)")),
            },
            ("matches", 2) => {
                let pattern = arguments.pop();
                self.matches(at, arguments.pop(), pattern)
            }
            _ => {
                let function = functions::find(name, false, arguments.len());
                let function = function.map_err(|what| Fault::new(at, what))?;
                self.node(at, Kind::Call { function, of: None, arguments })
            }
        }
    }

    fn method(&mut self, at: usize, of: Node, name: &str) -> Parsed {
        if let Some(kind) = LoopKind::by_name(name) {
            return self.repeat(at, of, name, kind);
        }
        let mut arguments = self.arguments()?;
        if name == "matches" && arguments.len() == 1 {
            return self.matches(at, Some(of), arguments.pop());
        }
        let unfit = |what: String| Fault::new(at, what);
        if let Kind::Root(space) = &of.kind {
            if space == "optional" {
                let function = functions::find(&format!("optional.{name}"), false, arguments.len());
                return self.node(at, Kind::Call { function: function.map_err(unfit)?, of: None, arguments });
            }
            if space == "cel" && name == "bind" {
                return Err(Fault::new(at, "cel.bind is not there; write the value where it is used"));
            }
        }
        let library = match &of.kind {
            Kind::Root(name) => name.as_str(),
            _ => "",
        };
        let function = functions::find(name, true, arguments.len());
        let function =
            function.map_err(|what| unfit(functions::of_library(library, name).unwrap_or(what)))?;
        self.node(at, Kind::Call { function, of: Some(Box::new(of)), arguments })
    }

    fn matches(&mut self, at: usize, of: Option<Node>, pattern: Option<Node>) -> Parsed {
        let (Some(of), Some(Node { kind: Kind::Text(pattern), at: place, .. })) = (of, pattern) else {
            return Err(Fault::new(
                at,
                "matches takes a pattern that is written out, as in x.matches('^v[0-9]+$')",
            ));
        };
        self.patterns += 1;
        if self.patterns > PATTERNS_MAX {
            return Err(Fault::new(place, "this is one of more than 4 patterns; join them with |"));
        }
        let Some(pattern) = Pattern::compile(&pattern) else {
            return Err(Fault::new(
                place,
                "this is no pattern (RE2's syntax, without \\p and the flags u and x), or too large a one; make it simpler",
            ));
        };
        self.node(at, Kind::Matches(Box::new(of), pattern))
    }

    /// `of.all(name, body)`, and its like.
    fn repeat(&mut self, at: usize, over: Node, name: &str, kind: LoopKind) -> Parsed {
        let usage = || Fault::new(at, functions::loop_usage(name));
        self.expect("(")?;
        self.open()?;
        let Word::Name(variable) = self.word().clone() else { return Err(usage()) };
        self.next += 1;
        if !self.eat(",") {
            return Err(usage());
        }
        let is_open = self.is_open(&over);
        self.scope.push((variable.clone(), is_open));
        let mut body = self.expression()?;
        let mut filter = None;
        if kind == LoopKind::Map && self.eat(",") {
            filter = Some(std::mem::replace(&mut body, self.expression()?));
        }
        self.scope.pop();
        if self.is(",") {
            return Err(usage());
        }
        self.close(")")?;
        let parts = Loop { kind, over, name: variable, filter, body, is_open };
        self.node(at, Kind::Loop(Box::new(parts)))
    }

    /// Whether a value comes from the status, or from a filter.
    fn is_open(&self, node: &Node) -> bool {
        match &node.kind {
            Kind::Root(name) => name == "status",
            Kind::Variable(name) => {
                self.scope.iter().rev().find(|(known, _)| known == name).is_some_and(|(_, is_open)| *is_open)
            }
            Kind::Loop(parts) if parts.kind == LoopKind::Filter => true,
            _ => node.children().into_iter().any(|child| self.is_open(child)),
        }
    }
}

fn too_deep(at: usize) -> Fault {
    Fault::new(at, format!("more than {DEPTH_MAX} steps are nested or chained; make it simpler"))
}
