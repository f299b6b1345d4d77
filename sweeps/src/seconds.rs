//! A time on the command line.

use std::time::Duration;

/// A number of seconds, at least a millisecond.
///
/// # Errors
///
/// In words, when the text is no number or out of range.
pub fn parse_seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| format!("'{text}' is not a number of seconds"))?;
    if (0.001..=1e6).contains(&seconds) {
        Ok(Duration::from_secs_f64(seconds))
    } else {
        Err(format!("'{text}' is out of range; give 0.001 to 1000000 seconds"))
    }
}
