//! Writes the tables of the shipped health rules into a page, in place of what stands below its mark:
//! `reference <page>`, such as docs/reference/health.md. Links no client.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write;
use std::{env, fs};

use serde_json::Value;
use vidra_core::health::library;
use vidra_core::health::rule::RuleText;

/// Where the generated part of the page begins.
const MARK: &str = "<!-- Generated from crates/vidra-core/src/health/library (cargo xtask crds); to change what is below, change the files there. -->\n";

/// What a column's cell is taken from.
type Cell = fn(&RuleText) -> Option<&String>;

/// The columns. One that is empty in a whole table is left out.
const COLUMNS: [(&str, Cell); 4] = [
    ("Current when", |rule| rule.current.as_ref()),
    ("Failed when", |rule| rule.failed.as_ref()),
    ("InProgress when", |rule| rule.in_progress.as_ref()),
    ("Suspended when", |rule| rule.suspended.as_ref()),
];

/// How the tables are read.
const LEGEND: &str = "The first that is true decides, in the order Suspended, InProgress, Failed, Current; an object for which none is true\nis InProgress. `GROUP/*` is all other kinds of the group whose status has what the expressions read, `*.DOMAIN/*` those of\nall groups below a domain. Each kind links to the page or source of its project that says what the fields mean.\n";

/// A rule, and the page that says what its fields mean.
type Sourced = (RuleText, String);

/// The rules of each project by what they are about.
type Projects = BTreeMap<&'static str, BTreeMap<String, Sourced>>;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args_os().skip(1);
    let (Some(page), None) = (arguments.next(), arguments.next()) else {
        return Err("give one argument: the page, docs/reference/health.md".into());
    };
    let text = fs::read_to_string(&page)?;
    let (written, _) = text.split_once(MARK).ok_or("the page has lost the mark of its generated part")?;
    fs::write(&page, format!("{written}{MARK}{}", tables()?))?;
    Ok(())
}

/// The projects with their rules, each by what it is about.
fn projects() -> Result<Projects, Box<dyn Error>> {
    let mut projects = BTreeMap::new();
    for (name, text) in library::FILES {
        let file: Value = serde_saphyr::from_str(text)?;
        let mut rules = BTreeMap::new();
        for ((_, rule), whole) in
            library::entries(name, text).into_iter().zip(file["rules"].as_array().into_iter().flatten())
        {
            let source = whole["source"].as_str().unwrap_or_default().to_owned();
            rules.insert(rule.scope()?.to_string(), (rule, source));
        }
        projects.insert(*name, rules);
    }
    Ok(projects)
}

fn tables() -> Result<String, Box<dyn Error>> {
    let projects = projects()?;
    let links: Vec<_> = projects.keys().map(|project| format!("[{project}](#{project})")).collect();
    let count: usize = projects.values().map(BTreeMap::len).sum();
    let mut text = format!(
        "\n## Shipped rules\n\n{LEGEND}\n{count} rules of {} projects: {}.\n",
        projects.len(),
        links.join(", ")
    );
    for (project, rules) in &projects {
        write!(text, "\n### {project}\n\n{}", table(rules))?;
    }
    Ok(text)
}

fn table(rules: &BTreeMap<String, Sourced>) -> String {
    let columns: Vec<_> =
        COLUMNS.iter().filter(|(_, of)| rules.values().any(|(rule, _)| of(rule).is_some())).collect();
    let header = columns.iter().map(|(name, _)| (*name).to_owned());
    let line = |first: &str, cells: Vec<String>| format!("| {first} | {} |\n", cells.join(" | "));
    let mut text = line("kind", header.collect());
    text += &format!("|{}\n", "---|".repeat(1 + columns.len()));
    for (scope, (rule, source)) in rules {
        let ignores = if rule.observed_generation.is_some() { ", observedGeneration: Ignore" } else { "" };
        let cells = columns.iter().map(|(_, of)| of(rule).map(|text| code(text)).unwrap_or_default());
        text += &line(&format!("[`{scope}`]({source}){ignores}"), cells.collect());
    }
    text
}

/// An expression in a cell, on one line.
fn code(expression: &str) -> String {
    let line = expression.split_whitespace().collect::<Vec<_>>().join(" ");
    format!("`{}`", line.replace('|', "\\|"))
}
