//! Whether a model fits a device, said before anything is allocated.
//!
//! Allocating until a driver refuses takes a minute of uploading, and on some systems pushes other programs out of the
//! memory first. The plan knows every byte beforehand, and Vulkan knows how large the memory is and, where the driver
//! tells, how much of it is free.

use crate::model::Model;
use crate::plan::{self, Options, Placement, Plan, Space};

/// What a session allocates on the device, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Needs {
    /// Weights, repacked.
    pub weights: u64,
    /// Keys and values.
    pub cache: u64,
    /// Everything else.
    pub rest: u64,
}

impl Needs {
    /// What a plan takes.
    pub fn of(placement: &Placement, plan: &Plan) -> Self {
        let sum = |cache: bool| {
            let of_kind = |space: &Space| matches!(space, Space::Cache(_)) == cache;
            plan.buffers.iter().filter(|(space, _)| of_kind(space)).map(|(_, bytes)| bytes).sum()
        };
        Self { weights: placement.allocations.iter().sum(), cache: sum(true), rest: sum(false) }
    }

    /// All of it.
    pub fn total(&self) -> u64 {
        self.weights + self.cache + self.rest
    }
}

/// A model that does not fit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "this takes {} of device memory ({} weights, {} keys and values for a context of {context}, {} the rest), and the \
     device has {} free; {remedy}",
    megabytes(needs.total()), megabytes(needs.weights), megabytes(needs.cache), megabytes(needs.rest),
    megabytes(*available)
)]
pub struct TooLarge {
    /// What it takes.
    pub needs: Needs,
    /// The context that was asked for.
    pub context: u32,
    /// What there is, in bytes.
    pub available: u64,
    /// What would fit.
    pub remedy: String,
}

fn megabytes(bytes: u64) -> String {
    format!("{:.0} MB", bytes as f64 / 1e6)
}

/// Refuses what does not fit `available` bytes, with the longest context that would.
pub fn check(
    model: &Model<'_>,
    placement: &Placement,
    plan: &Plan,
    options: &Options,
    available: u64,
) -> Result<(), TooLarge> {
    let needs = Needs::of(placement, plan);
    if needs.total() <= available {
        return Ok(());
    }
    let fits = |context: u32| {
        let options = Options { context, ..*options };
        plan::decode(model, placement, &options)
            .is_ok_and(|plan| Needs::of(placement, &plan).total() <= available)
    };
    // Halving finds the power of two below; nobody needs it to the token.
    let context = std::iter::successors(Some(options.context / 2), |c| Some(c / 2))
        .take_while(|c| *c > 0)
        .find(|c| fits(*c));
    let remedy = match context {
        Some(context) => format!("a context of {context} would fit"),
        None => format!(
            "no context would: use a smaller model (at most some {} of weights), or another device with --device",
            megabytes(available.saturating_sub(needs.rest))
        ),
    };
    Err(TooLarge { needs, context: options.context, available, remedy })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embedded;
    use crate::gguf::Gguf;
    use crate::plan::{Limits, Tuning};

    fn check_with(available: u64) -> Result<(), TooLarge> {
        let gguf = Gguf::parse(embedded::MODEL).unwrap();
        let model = Model::from_gguf(&gguf).unwrap();
        let limits = Limits::TYPICAL;
        let placement = plan::place(&model, &limits).unwrap();
        let options = Options::new(1024, Tuning::GPU, limits);
        let plan = plan::decode(&model, &placement, &options).unwrap();
        check(&model, &placement, &plan, &options, available)
    }

    #[test]
    fn what_fits_is_accepted_to_the_byte() {
        let total = check_with(0).unwrap_err().needs.total();
        assert_eq!(check_with(total), Ok(()));
        let error = check_with(total - 1).unwrap_err();
        assert_eq!(error.remedy, "a context of 512 would fit");
    }

    #[test]
    fn too_little_for_the_weights_alone_says_so() {
        let error = check_with(1 << 20).unwrap_err();
        assert!(error.needs.weights > 2_000_000 && error.needs.cache > 0);
        assert!(
            error.to_string().contains("no context would") && error.to_string().contains("1 MB free"),
            "{error}"
        );
    }
}
