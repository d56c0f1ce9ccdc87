//! Tables of pages that tests read.

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
