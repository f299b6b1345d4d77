//! What was recorded into a command buffer and what became of it, kept for the audit and the trace.
//!
//! Neither may rely on what the policies decided: the audit judges them, and the trace explains them. So the journal
//! holds the application's stream (operations with their accesses, asked barriers) and the driver's (operations and
//! barriers in the order in which they were issued), and nothing in between. It is kept only where one of the two was
//! asked for.
//!
//! Shuffling is not in it: it moves only what the issued barriers leave free, so a barrier that is missing from the
//! unshuffled stream is missing.

use zinc_hazard::model::Event;
use zinc_hazard::model::issued::Issued;
use zinc_hazard::{Access, Barrier, Issue, Nature, Plan, Stages, Stretch};

/// What an operation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum What {
    /// A dispatch of the pipeline of this number, in order of creation from 0; `None` where it is not known.
    Dispatch(Option<u64>),
    /// A copy.
    Copy,
    /// A fill or update.
    Clear,
    /// A timestamp, or a reset of queries.
    Query,
    /// A command without a model.
    Unknown,
}

/// One operation.
#[derive(Clone, Copy, Debug)]
struct Operation {
    what: What,
    nature: Nature,
}

/// The journal of one recording.
#[derive(Clone, Debug, Default)]
pub struct Journal {
    /// Operations and asked barriers, as recorded.
    pub recorded: Vec<Event>,
    /// Operations and barriers, as issued.
    pub issued: Vec<Issued>,
    operations: Vec<Operation>,
    /// The first operation of the stretch that is being held.
    first: usize,
}

impl Journal {
    /// The application asks for `barrier`.
    pub fn asked(&mut self, barrier: Barrier) {
        self.recorded.push(Event::Asked(barrier));
    }

    /// A barrier is issued.
    pub fn emitted(&mut self, barrier: Barrier) {
        self.issued.push(Issued::Emitted(barrier));
    }

    /// An operation is recorded.
    pub fn operation(&mut self, what: What, nature: Nature, accesses: &[Access]) {
        self.recorded.push(Event::Operation(accesses.to_vec()));
        self.operations.push(Operation { what, nature });
    }

    /// The operation recorded last is issued.
    pub fn issued_last(&mut self) {
        if let Some(last) = self.operations.len().checked_sub(1) {
            self.issued.push(Issued::Operation(last));
            self.first = self.operations.len();
        }
    }

    /// A command without a model is recorded and issued.
    pub fn unknown(&mut self) {
        self.operation(What::Unknown, Nature::Stays, &Access::unknown());
        self.issued_last();
    }

    /// The stretch that was held is issued by `plan`; `withheld` are the barriers of it that are not.
    pub fn plan(&mut self, plan: &Plan, withheld: &[usize]) {
        let already = self.operations.len() == self.first;
        for issue in &plan.issue {
            match issue {
                // An operation that could not be held was a stretch of its own and was issued at once.
                Issue::Operation(_) if already => {}
                Issue::Operation(number) => self.issued.push(Issued::Operation(self.first + number)),
                Issue::Barrier(number) if withheld.contains(number) => {}
                Issue::Barrier(number) => self.emitted(plan.emissions[*number].barrier),
            }
        }
        self.first = self.operations.len();
    }

    /// A secondary command buffer with this journal is executed.
    pub fn executes(&mut self, secondary: &Journal) {
        let first = self.operations.len();
        self.recorded.extend(secondary.recorded.iter().cloned());
        self.issued.extend(secondary.issued.iter().map(|issued| match issued {
            Issued::Operation(number) => Issued::Operation(first + number),
            Issued::Emitted(barrier) => Issued::Emitted(*barrier),
        }));
        self.operations.extend(&secondary.operations);
        self.first = self.operations.len();
    }

    /// All operations, as recorded.
    pub fn operations(&self) -> impl Iterator<Item = (Nature, &[Access])> {
        let accesses = self.recorded.iter().filter_map(|event| match event {
            Event::Operation(accesses) => Some(&accesses[..]),
            Event::Asked(_) | Event::Emitted(_) => None,
        });
        self.operations.iter().map(|operation| operation.nature).zip(accesses)
    }

    /// The stretches between commands without a model, as recorded, each with what its operations are.
    pub fn stretches(&self) -> Vec<(Stretch, Vec<What>)> {
        let mut all = Vec::new();
        let mut open = (Stretch::new(), Vec::new());
        let mut operations = self.operations.iter();
        for event in &self.recorded {
            match event {
                Event::Asked(barrier) => open.0.asked(*barrier),
                Event::Emitted(_) => {}
                Event::Operation(accesses) => match operations.next() {
                    Some(Operation { what: What::Unknown, .. }) | None => {
                        all.push(std::mem::replace(&mut open, (Stretch::new(), Vec::new())));
                    }
                    Some(Operation { what, nature }) => {
                        match nature {
                            Nature::Synchronises => open.0.flush(),
                            Nature::Stamps { after_compute } => open.0.timestamp(*after_compute),
                            Nature::Movable | Nature::Stays => {}
                        }
                        open.0.operation(accesses, *nature != Nature::Movable);
                        open.1.push(*what);
                    }
                },
            }
        }
        all.push(open);
        all.retain(|(stretch, _)| !stretch.is_empty());
        all
    }
}

/// What a transfer with these accesses is.
pub fn transfer(accesses: &[Access]) -> What {
    match accesses.iter().any(|access| access.stages.intersects(Stages::COPY)) {
        true => What::Copy,
        false => What::Clear,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zinc_hazard::model::issued::Queue;
    use zinc_hazard::{Freedom, MemoryId, Range};

    fn range(i: u64) -> Range {
        Range::bytes(MemoryId(1), i * 64, 64, 64)
    }

    fn held() -> Journal {
        let mut journal = Journal::default();
        journal.operation(What::Dispatch(Some(3)), Nature::Movable, &[Access::shader_write(range(0))]);
        journal.asked(Barrier::FULL);
        journal.operation(What::Dispatch(None), Nature::Movable, &[Access::shader_read(range(0))]);
        journal
    }

    #[test]
    fn a_plan_is_written_down_as_it_is_issued_and_a_withheld_barrier_is_not() {
        let (stretch, whats) = held().stretches().remove(0);
        assert_eq!(whats, [What::Dispatch(Some(3)), What::Dispatch(None)]);
        let plan = stretch.plan(Freedom::AnyOrder);
        for (withheld, violations) in [(&[][..], 0), (&[0][..], 1)] {
            let mut journal = held();
            journal.plan(&plan, withheld);
            let findings = Queue::new().submit(&journal.recorded, &journal.issued);
            assert_eq!((findings.violations.len(), findings.lost.len()), (violations, 0));
        }
    }

    #[test]
    fn commands_without_a_model_end_a_stretch_and_secondaries_keep_their_numbers() {
        let mut journal = held();
        journal.plan(&journal.stretches()[0].0.plan(Freedom::InOrder), &[]);
        journal.unknown();
        let mut primary = Journal::default();
        primary.executes(&journal);
        primary.executes(&journal);
        assert_eq!(primary.stretches().len(), 2);
        let issued = primary.issued.iter().filter(|i| matches!(i, Issued::Operation(_))).count();
        assert_eq!(issued, 6);
        assert!(Queue::new().submit(&primary.recorded, &primary.issued).lost.is_empty());
    }
}
