//! What makes a dispatch of each kernel: its workgroup, its constants, its grid.
//!
//! A function stands for a kernel or a family of them. It takes what a caller chooses (sizes, push constants, what is bound) in
//! the types that the shaders' build made of the GLSL, and adds what follows from that. Plans bind spans of buffers, the
//! operator check binds data: so what is checked is what plans dispatch.
//!
//! Kernels that read weights come in families, one kernel a format, named after both: `matvec_q4_0`.

mod batch;
mod fused;
mod grids;
mod weights;

pub(crate) use batch::*;
pub(crate) use fused::*;
pub(crate) use grids::*;
pub(crate) use weights::*;

use zinc_shaders::Build;

use crate::quant::WeightType;

/// The family's kernel for weights of this format.
pub(crate) fn of<F: Build>(family: &str, ty: WeightType) -> F {
    let name = format!("{family}_{}", ty.to_string().to_lowercase());
    F::by_name(&name).unwrap_or_else(|| panic!("the shaders have no {name}"))
}

/// The same for a family with two kernels a quantised format, one of which does without the device's dot product of bytes.
pub(super) fn built<F: Build>(family: &str, ty: WeightType, native_dot: bool) -> F {
    let plain = if native_dot || !ty.is_quantized() { "" } else { "_plain" };
    let name = format!("{family}_{}{plain}", ty.to_string().to_lowercase());
    F::by_name(&name).unwrap_or_else(|| panic!("the shaders have no {name}"))
}

#[cfg(test)]
mod tests {
    use zinc_shaders::{batch_rows, get_rows, matmul, matmul_coop, matvec};

    use super::*;

    #[test]
    fn every_family_has_a_kernel_of_its_own_for_every_format() {
        let mut names = Vec::new();
        for ty in WeightType::ALL {
            names.extend([
                of::<get_rows::Build>("get_rows", ty).kernel().name,
                of::<batch_rows::Build>("batch_rows", ty).kernel().name,
                of::<matvec::Build>("matvec", ty).kernel().name,
                of::<matmul::Build>("matmul", ty).kernel().name,
                of::<matmul_coop::Build>("matmul_coop", ty).kernel().name,
            ]);
        }
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), 5 * WeightType::ALL.len());
    }
}
