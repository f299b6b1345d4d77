//! The answers are right on data of which the truth is known.

use super::*;

/// Rounds of a machine whose rate scatters by `scatter`, with a tail towards slow runs, of an arm that is `truth` as fast.
fn rounds(n: usize, truth: f64, scatter: f64, rng: &mut fastrand::Rng) -> Vec<f64> {
    let mut noise = || scatter * (rng.f64() + rng.f64() + rng.f64() - 1.5) - scatter * rng.f64().powi(8);
    (0..n).map(|_| truth * (noise() - noise()).exp()).collect()
}

/// How often `answer` comes out of a thousand sweeps.
fn share(n: usize, truth: f64, scatter: f64, answer: Answer) -> f64 {
    let mut rng = fastrand::Rng::with_seed(7);
    let hits = (0..400)
        .filter(|_| Comparison::paired(&rounds(n, truth, scatter, &mut rng)).unwrap().answer == answer);
    hits.count() as f64 / 400.0
}

#[test]
fn where_there_is_no_difference_one_is_seen_no_more_often_than_promised() {
    for n in [2, 3, 5, 6, 10, 20] {
        let quiet = share(n, 1.0, 0.02, Answer::NoDifference);
        assert!(quiet >= 0.90, "{n} rounds: right in {quiet}");
    }
}

#[test]
fn a_difference_well_above_the_smallest_is_seen_and_its_direction_is_right() {
    for n in [6, 10, 20] {
        assert!(share(n, 1.05, 0.02, Answer::Higher) > 0.9, "{n}");
        assert!(share(n, 0.95, 0.02, Answer::Lower) > 0.9, "{n}");
    }
}

#[test]
fn the_smallest_difference_is_one_that_is_seen_about_four_times_in_five() {
    let mut rng = fastrand::Rng::with_seed(3);
    let n = 12;
    let mut all: Vec<f64> =
        (0..200).filter_map(|_| Comparison::paired(&rounds(n, 1.0, 0.02, &mut rng))?.smallest).collect();
    all.sort_by(f64::total_cmp);
    let seen = share(n, 1.0 + all[100], 0.02, Answer::Higher);
    assert!((0.6..0.97).contains(&seen), "{seen}");
}

#[test]
fn three_lucky_rounds_are_no_difference_where_their_range_leaves_out_one() {
    let c = Comparison::paired(&[1.002, 1.020, 1.011]).unwrap();
    assert_eq!(c.answer, Answer::NoDifference, "{c:?}");
    assert!(c.smallest.unwrap() > 0.02, "{c:?}");
    assert!(c.words().contains("would have shown"), "{}", c.words());
}

#[test]
fn one_round_says_nothing_and_no_round_gives_nothing() {
    let c = Comparison::paired(&[1.04]).unwrap();
    assert_eq!((c.answer, c.smallest, c.lo, c.hi), (Answer::TooFewRuns, None, c.ratio, c.ratio));
    assert!(c.half_width().is_infinite());
    assert_eq!(Comparison::paired(&[]), None);
    assert_eq!(Comparison::paired(&[f64::NAN, 0.0, -1.0]), None);
    assert_eq!(Comparison::unpaired(&[1.0], &[]), None);
    let summary = |mean, deviation| Summary { mean, deviation, n: 5 };
    assert_eq!(Comparison::of_summaries(summary(0.0, 1.0), summary(1.0, 1.0)), None);
}

#[test]
fn equal_rounds_are_no_difference_and_constant_ones_are_one() {
    assert_eq!(Comparison::paired(&[1.0; 3]).unwrap().answer, Answer::NoDifference);
    assert_eq!(Comparison::paired(&[1.25; 3]).unwrap().answer, Answer::Higher);
    assert_eq!(Comparison::unpaired(&[5.0; 8], &[5.0; 8]).unwrap().answer, Answer::NoDifference);
    assert_eq!(Comparison::unpaired(&[4.0; 8], &[5.0; 8]).unwrap().answer, Answer::Lower);
}

#[test]
fn the_same_rounds_give_the_same_interval() {
    let values: Vec<f64> = (0..9).map(|i| 1.0 + 0.01 * f64::from(i * i % 7)).collect();
    assert_eq!(Comparison::paired(&values), Comparison::paired(&values));
}

#[test]
fn students_t_of_published_means_is_reproduced() {
    // 10 of 5 each, deviations 1 and 1, difference 2 in 100: t = 2 / sqrt(2/5) = 3.162 at 8 degrees, p = 0.0133.
    let summary = |mean| Summary { mean, deviation: 1.0, n: 5 };
    let c = Comparison::of_summaries(summary(102.0), summary(100.0)).unwrap();
    assert_eq!(c.answer, Answer::Higher);
    assert!((c.p.unwrap() - 0.0133).abs() < 0.001, "{c:?}");
}

#[test]
fn of_many_rows_a_single_weak_one_is_a_fluke_and_a_strong_one_is_not() {
    let mut ps = vec![Some(0.03); 1];
    ps.extend((1..19).map(|i| Some(0.05 + 0.05 * f64::from(i))));
    assert_eq!(holm(&ps).iter().filter(|d| **d).count(), 0);
    ps[0] = Some(0.0001);
    ps.push(None);
    let differs = holm(&ps);
    assert!(differs[0] && differs.iter().filter(|d| **d).count() == 1);
}
