//! `ZINC_BARRIER_AUDIT`: everything that is submitted, held against the independent model.
//!
//! At each submission the journals of its command buffers go through `zinc_hazard::model::issued`, queue by queue: what
//! the application ordered must be ordered by what was issued, across command buffers too. It catches whatever a policy,
//! a mutation or the layer's own replay loses; what it can't catch is an access that the layer saw wrongly, since both
//! sides are told the same accesses.
//!
//! The model remembers everything and looks back at all of it, so a queue is forgotten when it grows long. Pairs that
//! lie further apart than that are not judged; the report says how many pairs were.

use crate::journal::Journal;
use ash::vk;
use std::collections::HashMap;
use std::sync::Arc;
use zinc_hazard::model::issued::Queue;

/// Operations after which a queue is forgotten, at the next submission.
const LONGEST_MEMORY: usize = 3000;

/// Violations that are printed; all are counted.
const MOST_LINES: u64 = 20;

/// The audit of one device.
#[derive(Debug, Default)]
pub struct Audit {
    queues: HashMap<vk::Queue, Queue>,
    /// What was found so far.
    pub found: zinc_report::Audit,
}

impl Audit {
    /// Takes in a submission. The result is lines for stderr.
    pub fn submit(&mut self, queue: vk::Queue, journals: &[Arc<Journal>]) -> Vec<String> {
        let mut lines = Vec::new();
        let model = self.queues.entry(queue).or_default();
        for journal in journals {
            if model.operations() > LONGEST_MEMORY {
                model.idle();
            }
            let findings = model.submit(&journal.recorded, &journal.issued);
            self.found.required += findings.required;
            let wrong = findings
                .violations
                .iter()
                .map(ToString::to_string)
                .chain(findings.swaps.iter().map(|swap| {
                    format!("operations {} and {} conflict and changed places", swap.earlier, swap.later)
                }))
                .chain(findings.lost.iter().map(|lost| format!("operation {lost} was lost or issued twice")));
            for line in wrong {
                self.found.violations += 1;
                if self.found.violations <= MOST_LINES {
                    lines.push(format!("audit: {line} (counted from the last {LONGEST_MEMORY} or so)"));
                }
            }
        }
        lines
    }
}
