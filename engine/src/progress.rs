//! Bars on standard error for work that takes a while; shown only if that is a terminal.

use indicatif::{ProgressBar, ProgressStyle};

/// Less than this is done before a bar could be read.
const WORTH_A_BAR: u64 = 64 << 20;

/// A bar over things that are counted, such as tokens.
pub(crate) fn count(length: u64, unit: &str) -> ProgressBar {
    styled(length, &format!("{{bar:40}} {{pos}}/{{len}} {unit} {{per_sec}} {{eta}} left"))
}

/// A bar over bytes; none for few of them.
pub(crate) fn bytes(length: u64, doing: &str) -> ProgressBar {
    if length < WORTH_A_BAR {
        return ProgressBar::hidden();
    }
    let template = "{bar:40} {bytes}/{total_bytes} {binary_bytes_per_sec} {eta} left";
    styled(length, &format!("{doing} {template}"))
}

fn styled(length: u64, template: &str) -> ProgressBar {
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(length).with_style(style)
}
