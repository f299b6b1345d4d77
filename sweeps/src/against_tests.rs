//! What is published is judged by what is here, and a fluke stays one.

use super::*;

fn shipped(name: &str, reports: &[Report]) -> Vec<Judged> {
    let (name, text) = find(name).unwrap();
    judge(&name, &text, reports).unwrap()
}

fn recorded(file: &str) -> Report {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/runs").join(file);
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn the_published_four_percent_is_no_difference() {
    let judged = shipped("graph_reuse_pr", &[]);
    assert_eq!(judged.len(), 21);
    let fluke = judged.iter().find(|j| j.claim.contains("one prompt generation")).unwrap();
    assert_eq!(fluke.mark, Mark::NoDifference, "{fluke:?}");
    assert!(fluke.why.contains("+4.0%") && fluke.why.contains("would have shown"), "{}", fluke.why);
    let whole = judged.last().unwrap();
    assert_eq!((whole.claim.as_str(), whole.mark), ("the whole table", Mark::NoDifference), "{whole:?}");
}

#[test]
fn a_four_percent_that_repeats_itself_is_a_difference() {
    let mut text = String::from("device,model,test,before,before_err,after,after_err\n");
    for i in 0..8 {
        text.push_str(&format!(
            "d,m,t{i},{},,{},\n",
            25.0 + f64::from(i),
            1.04 * (25.0 + f64::from(i)) + 0.001
        ));
    }
    let judged = judge("own", &text, &[]).unwrap();
    assert!(judged.iter().all(|j| j.mark == Mark::Differs), "{judged:?}");
}

#[test]
fn every_shipped_table_says_where_it_is_from_and_all_its_claims_get_a_mark() {
    for (name, text) in SHIPPED {
        assert!(text.starts_with("# ") && text.contains("source") || name == "rdna4_claims", "{name}");
        let judged = shipped(name, &[]);
        assert!(!judged.is_empty(), "{name}");
        let own = matches!(name, "graph_reuse_pr" | "fak_rx7600_ladder");
        for j in judged {
            assert_eq!(j.mark == Mark::NotTestable, !own, "{name}: {j:?}");
            assert!(!j.why.is_empty());
        }
    }
}

#[test]
fn counts_of_the_real_driver_confirm_what_was_published_of_it() {
    let judged = shipped("honeykrisp_m2ultra_arms", &[recorded("shims/llama.json")]);
    let confirmed: Vec<&str> =
        judged.iter().filter(|j| j.mark == Mark::Confirmed).map(|j| j.claim.as_str()).collect();
    assert_eq!(confirmed.len(), 3, "{judged:#?}");
    assert!(judged.iter().any(|j| j.mark == Mark::NotTestable && j.why.contains("M2 Ultra")));
}

#[test]
fn a_report_that_disagrees_contradicts() {
    let mut report = recorded("shims/llama.json");
    for arm in &mut report.arms {
        arm.barriers_asked_per_token = arm.barriers_asked_per_token.map(|n| n + 40.0);
    }
    let judged = shipped("honeykrisp_m2ultra_arms", &[report]);
    let asked = judged.iter().find(|j| j.claim.contains("366")).unwrap();
    assert_eq!(asked.mark, Mark::Contradicted);
    assert!(asked.why.contains("405"), "{}", asked.why);
}

#[test]
fn a_gpu_that_was_swept_without_barriers_speaks_to_the_ceiling() {
    let judged = shipped("honeykrisp_m2ultra_arms", &[recorded("h200/report.json")]);
    let ceiling: Vec<&Judged> = judged.iter().filter(|j| j.claim.contains("without barriers")).collect();
    assert_eq!(ceiling.len(), 2);
    assert!(ceiling.iter().all(|j| j.mark == Mark::Confirmed), "{ceiling:?}");
    let judged = shipped("honeykrisp_m2ultra_arms", &[recorded("lavapipe/report.json")]);
    assert!(judged.iter().filter(|j| j.claim.contains("without")).all(|j| j.mark == Mark::NotTestable));
}

#[test]
fn a_claim_of_another_quantity_is_decided_by_no_report() {
    let reports = [
        recorded("h200/report.json"),
        recorded("h200/smollm2-135m/report.json"),
        recorded("shims/llama.json"),
    ];
    let judged = shipped("rdna4_claims", &reports);
    let of = |part: &str| judged.iter().find(|j| j.claim.contains(part)).unwrap();
    // The runs are of one sequence: they speak to that and to nothing of 64.
    assert_eq!(of("at batch 1").mark, Mark::Confirmed, "{judged:?}");
    for part in ["at batch 64", "CUDA graphs", "RMS_NORM", "10 barriers to 3", "Khronos sample"] {
        let judged = of(part);
        assert_eq!(judged.mark, Mark::NotTestable, "{judged:?}");
        assert!(judged.why.starts_with("no report has this quantity: it speaks of"), "{}", judged.why);
    }
}

#[test]
fn a_ladder_is_judged_by_its_own_figures() {
    let judged = shipped("fak_rx7600_ladder", &[]);
    assert_eq!(judged[0].mark, Mark::Contradicted);
    assert!(judged[0].why.contains(
        "'batched and persistent staging' with 571 to 908 after 'one submit an op' with 325 to 804"
    ));
    let claim = Claim { claim: "c".into(), ..Claim::default() };
    let of = |rows: &str| by_own_steps(&claim, &format!("step,ms\n{rows}")).mark;
    assert_eq!(of("a,9\nb,8-8.5\nc,7"), Mark::Confirmed);
    assert_eq!(of("a,9\nb,7-10\nc,5"), Mark::NotTestable, "it may be either");
    assert_eq!(of("a,9\nb,9"), Mark::Contradicted, "it is not faster");
    assert_eq!(of("a,9"), Mark::NotTestable);
    assert_eq!(of("a,fast\nb,faster"), Mark::NotTestable);
}

#[test]
fn a_ratio_is_above_or_about_only_if_its_whole_interval_is() {
    let claim = |relation: &str| Claim { relation: relation.into(), value: 1.0, ..Claim::default() };
    let found = |lo, value, hi| Found { value, interval: Some((lo, hi)) };
    assert_eq!(holds(&claim("above"), found(1.01, 1.1, 1.2)), Some(true));
    assert_eq!(holds(&claim("above"), found(0.9, 1.1, 1.2)), None);
    assert_eq!(holds(&claim("above"), found(0.8, 0.9, 1.0)), Some(false));
    assert_eq!(holds(&claim("below"), found(0.8, 0.9, 0.99)), Some(true));
    assert_eq!(holds(&claim("below"), found(0.8, 0.9, 1.1)), None);
    assert_eq!(holds(&claim("above"), Found { value: 2.0, interval: None }), Some(true));
    assert_eq!(holds(&claim("about"), found(0.96, 1.0, 1.04)), Some(true));
    assert_eq!(holds(&claim("about"), found(0.8, 1.0, 1.3)), None, "its middle alone would confirm it");
    assert_eq!(holds(&claim("about"), found(1.06, 1.1, 1.2)), Some(false));
}

#[test]
fn a_table_that_is_not_there_or_not_understood_is_named_with_the_remedy() {
    let error = find("no-such-table").unwrap_err();
    assert!(error.to_string().contains("graph_reuse_pr"), "{error}");
    let error = judge("x", "a,b\n1,2\n", &[]).unwrap_err();
    assert!(error.to_string().contains("claims.csv"), "{error}");
    let error = judge("x", "device,model,test,before,before_err,after,after_err\nd,m,t,fast,,1,\n", &[]);
    assert_eq!(error.unwrap_err().exit_code(), 3);
}

#[test]
fn wrong_numbers_are_wrong_though_their_perplexity_is_a_number() {
    let report = recorded("h200/smollm2-135m/report.json");
    let none = report.arms.iter().find(|a| a.policy.as_deref() == Some("none")).unwrap();
    assert!(none.perplexity.is_some() && none.verdict == Verdict::IncorrectByDesign);
    let judged = shipped("honeykrisp_m2ultra_arms", std::slice::from_ref(&report));
    let of = |judged: &[Judged]| {
        judged.iter().find(|j| j.claim == "without barriers the numbers are wrong").unwrap().mark
    };
    assert_eq!(of(&judged), Mark::Confirmed);
    // The control: with nothing amiss the same claim is contradicted.
    let mut right = report;
    for arm in &mut right.arms {
        arm.failing.clear();
    }
    assert_eq!(of(&shipped("honeykrisp_m2ultra_arms", &[right])), Mark::Contradicted);
}
