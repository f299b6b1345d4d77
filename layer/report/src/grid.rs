//! A table in plain ASCII, in the shape of a Markdown table.
//!
//! The layer prints its report from inside other people's processes. What it needs for that is this much, so no crate for
//! tables, terminals and colours goes in with it.

use std::fmt;

use unicode_width::UnicodeWidthStr;

/// Rows of text below a header. Columns are as wide as their widest cell, and right-aligned but for the first.
pub(crate) struct Grid {
    /// The header first.
    rows: Vec<Vec<String>>,
}

impl Grid {
    /// A table without rows. A header has at least one column.
    pub(crate) fn new(header: &[&str]) -> Grid {
        Grid { rows: vec![header.iter().map(|name| name.to_string()).collect()] }
    }

    /// Adds a row, of as many cells as the header has.
    pub(crate) fn add_row<const N: usize>(&mut self, cells: [String; N]) {
        debug_assert_eq!(N, self.rows[0].len());
        self.rows.push(cells.into());
    }

    fn widths(&self) -> Vec<usize> {
        let column = |i: usize| self.rows.iter().filter_map(move |row| row.get(i));
        // One at least, so that a column without text is one.
        (0..self.rows[0].len()).map(|i| column(i).map(|cell| cell.width()).fold(1, usize::max)).collect()
    }
}

impl fmt::Display for Grid {
    /// No newline at the end.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widths = self.widths();
        for (number, row) in self.rows.iter().enumerate() {
            if number == 1 {
                for width in &widths {
                    write!(f, "|{:-<1$}", "", width + 2)?;
                }
                f.write_str("|\n")?;
            }
            for (i, (cell, width)) in row.iter().zip(&widths).enumerate() {
                let room = width - cell.width();
                let (left, right) = if i == 0 { (0, room) } else { (room, 0) };
                write!(f, "| {:left$}{cell}{:right$} ", "", "")?;
            }
            f.write_str(if number + 1 < self.rows.len() { "|\n" } else { "|" })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use comfy_table::{CellAlignment, Table, presets};
    use proptest::prelude::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell_and_numbers_stand_to_the_right() {
        let mut grid = Grid::new(&["", "n"]);
        grid.add_row(["one".into(), "1".into()]);
        grid.add_row(["日本".into(), "1000".into()]);
        assert_eq!(
            grid.to_string(),
            "|      |    n |\n\
             |------|------|\n\
             | one  |    1 |\n\
             | 日本 | 1000 |"
        );
    }

    #[test]
    fn a_column_of_empty_cells_has_room_for_one_character() {
        let mut grid = Grid::new(&["a", ""]);
        grid.add_row(["1".into(), String::new()]);
        assert_eq!(grid.to_string(), "| a |   |\n|---|---|\n| 1 |   |");
    }

    proptest! {
        /// The judge that others wrote.
        #[test]
        fn a_table_is_what_comfy_table_makes_of_it(
            header in prop::array::uniform3("[a-z ]{0,9}"),
            rows in prop::collection::vec(prop::array::uniform3("[ -~éß日\u{301}🦀\u{200d}·]{0,12}"), 1..5),
        ) {
            let mut judge = Table::new();
            judge.load_preset(presets::ASCII_MARKDOWN).set_header(&header);
            for column in judge.column_iter_mut().skip(1) {
                column.set_cell_alignment(CellAlignment::Right);
            }
            let mut grid = Grid::new(&header.each_ref().map(|name| name.as_str()));
            for row in &rows {
                judge.add_row(row);
                grid.add_row(row.clone());
            }
            prop_assert_eq!(grid.to_string(), judge.to_string());
        }
    }
}
