use super::*;
use crate::outcome::{Failure, Measured};
use crate::packets::Count;

fn sweep(tokens: u64) -> Map<String, Value> {
    let sweep = json!({"settings": {"tokens": tokens}, "blake3": {"engine": "e"}});
    sweep.as_object().unwrap().clone()
}

fn ran(round: u32, outcome: Outcome) -> Observation {
    Observation {
        spec: RunSpec { round, ..RunSpec::WITHOUT_LAYER },
        outcome,
        wall: Duration::from_millis(1500),
    }
}

fn measured() -> Measured {
    Measured {
        digest: "d".into(),
        perplexity: f64::NAN,
        tok_s: 0.1 + 0.2,
        packets: Some(Ok([(Count::Flushes, 7)].into())),
        ..Measured::nothing(32)
    }
}

fn open(folder: &Path, tokens: u64, resume: bool) -> Result<Journal, SweepError> {
    Journal::open(folder, &sweep(tokens), resume, 1000)
}

#[test]
fn what_was_run_comes_back_once_and_what_was_not_does_not() {
    let folder = tempfile::tempdir().unwrap();
    let mut journal = open(folder.path(), 32, false).unwrap();
    journal.add(0, &ran(0, Ok(measured())), 0.0).unwrap();
    journal.add(0, &ran(1, Err(Failure::Timeout(Duration::from_secs(3)))), 2.0).unwrap();
    drop(journal);

    let mut journal = open(folder.path(), 32, true).unwrap();
    assert_eq!((journal.resumed, journal.end_s, journal.began_unix_s), (2, 3.5, 1000));
    let spec = |round| RunSpec { round, ..RunSpec::WITHOUT_LAYER };
    let first = journal.take(0, &spec(0)).unwrap();
    let m = first.observation.outcome.unwrap();
    assert!(m.perplexity.is_nan());
    assert_eq!((m.digest.as_str(), m.packets), ("d", measured().packets));
    assert!((m.tok_s - 0.3).abs() < 1e-12);
    assert_eq!(first.observation.wall, Duration::from_millis(1500));
    assert!(journal.take(0, &spec(0)).is_none(), "once");
    let second = journal.take(0, &spec(1)).unwrap();
    assert_eq!(second.observation.outcome, Err(Failure::Timeout(Duration::from_secs(3))));
    assert!(journal.take(1, &spec(0)).is_none(), "another target");
    assert!(journal.take(0, &spec(2)).is_none());
}

#[test]
fn a_line_that_was_cut_off_is_no_run_and_the_next_one_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    let mut journal = open(folder.path(), 32, false).unwrap();
    for round in 0..2 {
        journal.add(0, &ran(round, Ok(measured())), f64::from(round)).unwrap();
    }
    drop(journal);
    let path = folder.path().join(NAME);
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() - 9]).unwrap();
    let mut journal = open(folder.path(), 32, true).unwrap();
    assert_eq!(journal.resumed, 1);
    journal.add(0, &ran(1, Ok(measured())), 1.0).unwrap();
    drop(journal);
    assert_eq!(open(folder.path(), 32, true).unwrap().resumed, 2);
}

#[test]
fn a_record_of_another_sweep_is_refused_with_what_differs_and_stays_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    open(folder.path(), 32, false).unwrap().add(0, &ran(0, Ok(measured())), 0.0).unwrap();
    let before = std::fs::read(folder.path().join(NAME)).unwrap();
    let error = open(folder.path(), 64, true).unwrap_err();
    assert_eq!(error.exit_code(), 2);
    assert!(error.to_string().contains("other settings"), "{error}");
    assert_eq!(std::fs::read(folder.path().join(NAME)).unwrap(), before);
}

#[test]
fn without_resume_the_record_begins_anew_and_without_a_record_resume_begins_one() {
    let folder = tempfile::tempdir().unwrap();
    open(folder.path(), 32, true).unwrap().add(0, &ran(0, Ok(measured())), 0.0).unwrap();
    assert_eq!(open(folder.path(), 32, true).unwrap().resumed, 1);
    assert_eq!(open(folder.path(), 64, false).unwrap().resumed, 0);
    assert_eq!(open(folder.path(), 64, true).unwrap().resumed, 0);
}

#[test]
fn a_file_that_is_no_record_is_not_overwritten_by_resume() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(NAME);
    std::fs::write(&path, "{\"mine\": 1}\n").unwrap();
    assert_eq!(open(folder.path(), 32, true).unwrap_err().exit_code(), 2);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "{\"mine\": 1}\n");
}
