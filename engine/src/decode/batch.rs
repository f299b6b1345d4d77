//! How a session computes the prompts of its sequence in batches, and on what.
//!
//! Whether a batch's products may be multiplied in halves is a question to the device and to the weights at once, so it is
//! answered here, once, before anything is allocated, and in words that stand in the output.

use super::{Error, Matrices, Setup};
use crate::model::Model;
use crate::plan::{self, Options, Placement, Space};
use crate::quant::largest;
use crate::vk::Device;

/// The plan of a prompt's batches.
pub(super) struct Batch {
    pub(super) plan: plan::Plan,
    /// What its products are computed with, in words.
    pub(super) matrices: String,
}

impl Batch {
    /// None for several sequences, which have prompts of their own.
    pub(super) fn new(
        device: &Device,
        model: &Model<'_>,
        placement: &Placement,
        options: &Options,
        setup: &Setup,
    ) -> Result<Option<Self>, Error> {
        let mut batch = setup.prompt_batch.min(options.context);
        if batch == 0 || setup.levers.sequences > 1 {
            return Ok(None);
        }
        if setup.prompt_logits == plan::Logits::All {
            // As many rows of logits as one binding holds.
            let row = 4 * u64::from(model.config.vocabulary);
            batch = batch.min((options.limits.range / row).max(1) as u32);
        }
        let found = match setup.matrices {
            Matrices::Plain => Err("as asked".to_owned()),
            Matrices::Auto | Matrices::Cooperative => fragment(device.cooperative(), model),
        };
        let (matrix, matrices) = match found {
            Ok(f) => (Some(f), format!("cooperative matrices of {}x{}x{}", f.m, f.n, f.k)),
            Err(why) if setup.matrices == Matrices::Cooperative => {
                return Err(Error::NotCooperative("matrix", why));
            }
            Err(why) => (None, format!("float arithmetic ({why})")),
        };
        let options = Options { matrix, ..*options };
        let plan = plan::prompt(model, placement, &options, batch, setup.prompt_logits)?;
        Ok(Some(Self { plan, matrices }))
    }
}

/// The cooperative matrices that suit a model, or why none do. Weights are rounded to halves for them, which hold what is
/// below 65520, and lose a bit more than BF16 has where a whole matrix is below 2^-12.
fn fragment(device: plan::Cooperative, model: &Model<'_>) -> Result<plan::Fragment, String> {
    let fragment = match device {
        plan::Cooperative::Has(shapes) => shapes.product,
        plan::Cooperative::Lacks(why) => return Err(why.to_owned()),
    };
    for matrix in model.matrices().into_iter().filter(|matrix| matrix.rows > 1) {
        let most = largest(matrix.ty, matrix.data);
        if most >= 65504.0 || (most > 0.0 && most < 1.0 / 4096.0) {
            return Err(format!("halves don't hold the weights of {}, which may be {most:e}", matrix.name));
        }
    }
    Ok(fragment)
}

/// Tokens that a batch's plan takes at most.
pub(super) fn batch_tokens(plan: &plan::Plan) -> u32 {
    ((plan.bytes(Space::Step) - plan::batch_bytes(0)) / 4) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embedded;
    use crate::gguf::Gguf;

    const FRAGMENT: plan::Fragment = plan::Fragment { m: 16, n: 16, k: 16, subgroup: 32 };
    const HAS: plan::Cooperative =
        plan::Cooperative::Has(plan::Shapes { product: FRAGMENT, attention: None });

    #[test]
    fn cooperative_matrices_are_for_devices_that_have_them_and_weights_that_halves_hold() {
        let mut file = embedded::MODEL.to_vec();
        let found = |file: &[u8], device| {
            let gguf = Gguf::parse(file).unwrap();
            fragment(device, &Model::from_gguf(&gguf).unwrap())
        };
        assert_eq!(found(&file, HAS), Ok(FRAGMENT));
        let why = found(&file, plan::Cooperative::Lacks("it is old")).unwrap_err();
        assert_eq!(why, "it is old");
        let at = {
            let gguf = Gguf::parse(&file).unwrap();
            gguf.tensor("blk.1.ffn_up.weight").unwrap().data.as_ptr() as usize - file.as_ptr() as usize
        };
        // One scale of a Q8_0 block, which allows 128 times as much: still a finite weight, and no half.
        file[at + 34 * 7..at + 34 * 7 + 2].copy_from_slice(&half::f16::from_f32(600.0).to_le_bytes());
        let why = found(&file, HAS).unwrap_err();
        assert!(why.contains("blk.1.ffn_up.weight"), "{why}");
    }
}
