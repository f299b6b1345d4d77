//! What is said of a run when it has come to its end: a few words for whoever watches, and whether the sweep can go on.

use crate::outcome::Observation;
use crate::plan::Role;
use crate::target::Target;

/// Why the sweep cannot go on after this run: the runs that everything is compared with must give numbers. Where nothing
/// decodes, counts are all that is asked of them.
pub(super) fn needed(o: &Observation, decodes: bool) -> Option<String> {
    let what = match (o.spec.role == Role::WithoutLayer, o.spec.is_reference()) {
        (true, _) => "the run without the layer gave no result",
        (_, true) => "the reference gave no result",
        _ => return None,
    };
    match &o.outcome {
        Err(failure) => Some(format!("{what}, so there is nothing to compare with: {failure}")),
        Ok(m) if decodes && !m.perplexity.is_finite() => Some(format!(
            "{what} that others can be compared with: its perplexity, or the value that is compared, is not a finite number"
        )),
        Ok(_) => None,
    }
}

/// What the last run gave, in a few words.
pub(super) fn result_words(target: &Target, o: &Observation) -> String {
    match (&o.outcome, target.evidence().reference()) {
        (Err(failure), _) => failure.to_string(),
        (Ok(_), _) if o.spec.role == Role::Setup || !target.executes => "counted".into(),
        (Ok(m), Some(_)) if o.spec.is_reference() => match &target.measure {
            None => format!("{:.1} tok/s", m.tok_s),
            Some(measure) => format!("{} {:.4}", measure.metric, m.tok_s),
        },
        (Ok(_), None) => "done".into(),
        (Ok(m), Some(_)) => target.evidence().difference(&o.spec, m).unwrap_or_else(|| "the same".into()),
    }
}
