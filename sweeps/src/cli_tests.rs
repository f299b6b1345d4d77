//! What is taken on the command line, and what is refused in which words.

use super::*;

fn parse(args: &[&str]) -> Result<Cli, clap::Error> {
    Cli::try_parse_from(std::iter::once("sweep").chain(args.iter().copied()))
}

#[test]
fn the_definition_is_sound() {
    Cli::command().debug_assert();
}

#[test]
fn a_wrong_policy_is_a_usage_error_that_lists_the_right_ones() {
    let error = parse(&["--policy", "alias"]).unwrap_err();
    assert_eq!(error.exit_code(), 2);
    let text = error.to_string();
    assert!(Policy::ALL.iter().all(|p| text.contains(p.name())), "{text}");
}

#[test]
fn without_a_policy_all_but_the_reference_are_arms() {
    assert_eq!(parse(&[]).unwrap().arms(), Policy::ALL[1..]);
}

#[test]
fn a_policy_named_twice_is_one_arm_and_stock_is_none() {
    let cli = parse(&["--policy", "none", "--policy", "stock", "--policy", "none"]).unwrap();
    assert_eq!(cli.arms(), [Policy::None]);
    assert!(parse(&["--policy", "stock"]).unwrap().arms().is_empty());
}

#[test]
fn zero_repetitions_and_absurd_sizes_are_usage_errors() {
    for args in [&["--reps", "0"], &["--tokens", "1"], &["--ctx", "99999999999"], &["--timeout", "nan"]] {
        assert_eq!(parse(args).unwrap_err().exit_code(), 2, "{args:?}");
    }
}

#[test]
fn a_precision_is_a_percentage() {
    assert_eq!(parse(&["--precision", "1%"]).unwrap().precision, Some(0.01));
    assert_eq!(parse(&["--precision", "0.5"]).unwrap().precision, Some(0.005));
    for wrong in ["0%", "abc", "99%", ""] {
        assert_eq!(parse(&["--precision", wrong]).unwrap_err().exit_code(), 2, "{wrong}");
    }
}

#[test]
fn a_chunk_is_never_longer_than_a_run() {
    assert_eq!(parse(&[]).unwrap().chunk(), 128);
    assert_eq!(parse(&["--tokens", "64"]).unwrap().chunk(), 64);
    assert_eq!(parse(&["--tokens", "512"]).unwrap().chunk(), 128);
    assert_eq!(parse(&["--ctx", "32"]).unwrap().check().unwrap().chunk(), 32);
    assert_eq!(parse(&["--ctx", "256"]).unwrap().check().unwrap_err().exit_code(), 2);
}

#[test]
fn on_a_driver_that_records_an_application_needs_a_place_for_its_tokens() {
    let check = |args: &[&str]| parse(args).and_then(Cli::check);
    let shim = ["--driver", "honeykrisp-shim"];
    assert!(check(&[&shim[..], &["--", "app", "-n", "{tokens}"]].concat()).is_ok());
    for (args, needle) in [
        (vec!["--driver", "honeykrisp-shim", "--", "app", "-n", "7"], "{tokens}"),
        (vec!["--driver", "honeykrisp-shim", "--tokens", "5", "--", "app", "{tokens}"], "more than 5"),
        (vec!["--driver", "honeykrisp-shim", "--model", "m", "--", "app", "{tokens}"], "--model"),
        (vec!["--driver", "honeykrisp-shim", "--root", "/r"], "--app COMMAND"),
    ] {
        let error = check(&args).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        assert!(error.to_string().contains(needle), "{args:?}: {error}");
    }
}

#[test]
fn an_application_that_executes_is_given_in_one_argument_or_several() {
    let check = |args: &[&str]| parse(args).and_then(Cli::check);
    let one = check(&["--app", "app -p 'two words'", "--same-output", "--metric", "x (.*)"]).unwrap();
    let several = check(&["--", "app", "-p", "two words"]).unwrap();
    assert_eq!(one.command_line(), several.command_line());
    assert_eq!(check(&[]).unwrap().command_line(), None);
    for (args, needle) in [
        (vec!["--metric", "x"], "--app COMMAND"),
        (vec!["--check", "x"], "--app COMMAND"),
        (vec!["--app", "a", "--metric", "("], "regular expression"),
        (vec!["--app", "a 'b"], "never closed"),
        (vec!["--app", "a", "--check", "b", "--same-output"], "--same-output"),
        (vec!["--app", "a", "--check-value", "b"], "--check <"),
        (vec!["--app", "a", "--", "b"], "cannot be used with"),
    ] {
        let error = check(&args).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        assert!(error.to_string().contains(needle), "{args:?}: {error}");
    }
}

#[test]
fn a_shim_of_an_unknown_chip_is_a_usage_error_that_lists_the_known_ones() {
    let error = parse(&["--driver", "radv-shim:navi99"]).unwrap_err();
    assert_eq!(error.exit_code(), 2);
    assert!(error.to_string().contains("gfx1201"), "{error}");
    assert!(parse(&["--driver", "radv-shim:navi31", "--driver", "honeykrisp-shim"]).is_ok());
}

#[test]
fn whatever_stands_behind_the_driver_is_the_programs_own() {
    for args in
        [&["on", "honeykrisp-shim", "--", "app", "--help"][..], &["on", "honeykrisp-shim", "app", "--help"]]
    {
        match parse(args).unwrap().command {
            Some(Command::On(on)) => assert_eq!(on.command, ["app", "--help"]),
            other => panic!("{other:?}"),
        }
    }
    for args in [&["on", "honeykrisp-shim"][..], &["on", "lavapipe", "--", "app"], &["on"]] {
        assert_eq!(parse(args).unwrap_err().exit_code(), 2, "{args:?}");
    }
}

#[test]
fn a_sweep_and_a_set_up_are_not_mixed() {
    assert_eq!(parse(&["--policy", "none", "setup-shims"]).unwrap_err().exit_code(), 2);
    assert_eq!(parse(&["setup-shims", "--where", "--refresh"]).unwrap_err().exit_code(), 2);
    assert!(matches!(parse(&["setup-shims"]).unwrap().command, Some(Command::SetupShims(_))));
}

#[test]
fn what_a_sweep_cannot_record_ahead_is_not_called_so() {
    let error = parse(&["--record", "reuse", "--record", "ahead"]).unwrap().check().unwrap_err();
    assert_eq!(error.exit_code(), 2);
    assert!(error.to_string().contains("engine bench --record ahead"), "{error}");
    parse(&["--record", "reuse", "--record", "each"]).unwrap().check().unwrap();
}
