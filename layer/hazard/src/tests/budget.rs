//! How much of the walking and drawing a run can afford.
//!
//! On an ordinary processor the numbers in the tests are what they say. Under an emulator or an interpreter, where a step costs
//! ten or a thousand times as much, two variables lower them: `ZINC_BARRIER_TEST_LENGTH`, the most operations of a program
//! that is walked (`exhaustive`, `minimal`, `whole`), and `ZINC_BARRIER_TEST_CASES`, the random programs for each property.
//! They never raise a number, and the properties stay the same. What looks for a counterexample ends when it has one, and is
//! not cut short.

use proptest::test_runner::Config;

/// `usual`, or what the variable says if that is less.
fn at_most(variable: &str, usual: usize) -> usize {
    let Some(said) = std::env::var_os(variable) else { return usual };
    let number = said.to_str().and_then(|said| said.parse::<usize>().ok()).filter(|number| *number > 0);
    usual.min(number.unwrap_or_else(|| panic!("{variable}={said:?} is not a number of at least 1")))
}

/// The most operations of the programs that are walked whole.
pub fn length(usual: usize) -> usize {
    at_most("ZINC_BARRIER_TEST_LENGTH", usual)
}

/// How many random cases a property is tried on.
pub fn cases(usual: u32) -> Config {
    Config::with_cases(at_most("ZINC_BARRIER_TEST_CASES", usual as usize) as u32)
}

#[test]
fn a_budget_lowers_a_number_and_never_raises_it() {
    assert_eq!(at_most("ZINC_BARRIER_TEST_NOBODY_SETS_THIS", 7), 7);
    // `PATH` is set wherever cargo runs, and is no number.
    assert!(std::panic::catch_unwind(|| at_most("PATH", 7)).is_err());
    assert!(length(4) <= 4 && cases(4000).cases <= 4000);
}
