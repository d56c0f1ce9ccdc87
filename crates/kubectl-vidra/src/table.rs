//! Tables as kubectl prints them: columns two or three blanks apart, no lines, no colours.

use comfy_table::{ContentArrangement, Table, presets};

use crate::text::clean;

/// A table of these columns; cells are cleaned. Each line ends with a line feed.
pub fn table(header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(header.to_vec());
    for row in rows {
        let cells = row.iter().map(|cell| if cell.is_empty() { "-".to_owned() } else { clean(cell) });
        table.add_row(cells.collect::<Vec<_>>());
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 3));
    }
    table.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}
