//! Figures as people read them.

/// A perplexity as people read it: garbage runs into hundreds of digits, of which none means anything.
pub fn perplexity(value: f64) -> String {
    if value < 1e6 { format!("{value:.4}") } else { format!("{value:.1e}") }
}
