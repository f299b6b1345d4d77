//! Which kernel does an operation for a weight format.
//!
//! Kernels that read weights come in families, one kernel a format, named after both: `matvec_q4_0`. The families are listed
//! here and the formats in [`WeightType::ALL`], and nowhere a second time; a test holds each family to being complete.

use zinc_shaders::Kernel;

use crate::quant::WeightType;

/// An operation with a kernel for every format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Family {
    /// The row of a table that a token names.
    GetRows,
    /// The rows that the tokens of a batch name.
    BatchRows,
    /// A matrix times one vector.
    Matvec,
    /// A matrix times the vectors of a batch.
    Matmul,
    /// The same on cooperative matrices.
    MatmulCoop,
}

impl Family {
    fn name(self) -> &'static str {
        match self {
            Self::GetRows => "get_rows",
            Self::BatchRows => "batch_rows",
            Self::Matvec => "matvec",
            Self::Matmul => "matmul",
            Self::MatmulCoop => "matmul_coop",
        }
    }

    /// The family's kernel for weights of this format.
    pub(crate) fn of(self, ty: WeightType) -> &'static Kernel {
        let name = format!("{}_{}", self.name(), ty.to_string().to_lowercase());
        Kernel::by_name(&name).expect("a family has a kernel for every format")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_family_has_a_kernel_of_its_own_for_every_format() {
        let mut names = Vec::new();
        let all = [Family::GetRows, Family::BatchRows, Family::Matvec, Family::Matmul, Family::MatmulCoop];
        for family in all {
            names.extend(WeightType::ALL.map(|ty| family.of(ty).name));
        }
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), 5 * WeightType::ALL.len());
    }
}
