//! Tables of pages that tests read.

use std::collections::BTreeSet;

/// Each cell of the tables of a page of Markdown, with the name of its column.
pub fn cells(page: &str) -> Vec<(String, String)> {
    let (mut all, mut head) = (Vec::new(), None);
    for line in page.lines() {
        if !line.starts_with('|') {
            head = None;
            continue;
        }
        let line = line.replace("\\|", " ");
        let row: Vec<String> = line.split('|').map(|cell| cell.trim().to_owned()).collect();
        match &head {
            None => head = Some(row),
            Some(columns) => all.extend(columns.iter().cloned().zip(row)),
        }
    }
    all
}

/// The reasons in the columns of that name. A cell may have several, between commas; what is a sentence is none.
pub fn reasons(page: &str) -> BTreeSet<String> {
    let is_reason = |text: &&str| {
        text.starts_with(|first: char| first.is_ascii_uppercase())
            && text.chars().all(|one| one.is_ascii_alphabetic())
    };
    let mut all = BTreeSet::new();
    for (_, cell) in cells(page).iter().filter(|(column, _)| column == "reason") {
        all.extend(cell.split(',').map(str::trim).filter(is_reason).map(str::to_owned));
    }
    all
}
