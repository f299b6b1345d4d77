//! No input makes the crate panic, and what is cut off is an error.

use std::sync::LazyLock;

use proptest::prelude::*;
use zinc_reflect::{ReflectError, reflect};

use crate::tools::{assemble_fixture, compile, folder};

/// Valid modules with much in them.
static VALID: LazyLock<Vec<Vec<u32>>> = LazyLock::new(|| {
    let mut modules: Vec<Vec<u32>> = ["images", "arrays", "functions", "addresses", "vulkan_model"]
        .map(|name| compile(&folder("shaders").join(format!("{name}.comp")), "vulkan1.2"))
        .into();
    modules.extend(
        ["stored_pointers", "calls", "phi"]
            .map(|name| assemble_fixture(&folder("fixtures").join(format!("{name}.spvasm")))),
    );
    modules
});

#[test]
fn words_that_are_no_module_are_named_errors() {
    let module = &VALID[0];
    assert_eq!(reflect(&[]), Err(ReflectError::NoHeader { words: 0 }));
    assert_eq!(reflect(&module[..4]), Err(ReflectError::NoHeader { words: 4 }));
    assert_eq!(reflect(&[0; 9]), Err(ReflectError::BadMagic(0)));
    let swapped: Vec<u32> = module.iter().map(|word| word.swap_bytes()).collect();
    assert_eq!(reflect(&swapped), Err(ReflectError::ByteSwapped));
    let mut zeros = module.clone();
    zeros.push(0);
    let error = reflect(&zeros).unwrap_err().to_string();
    assert!(error.contains("length zero") && error.contains(&format!("word {}", module.len())), "{error}");
}

#[test]
fn a_module_cut_within_its_functions_is_an_error() {
    for module in VALID.iter() {
        assert!(reflect(module).is_ok());
        for cut in 1..40 {
            let shorter = &module[..module.len() - cut];
            // Without its last functions a module is well-formed: who calls one of them is unknown then.
            if shorter.last() != Some(&0x0001_0038) {
                assert!(reflect(shorter).is_err(), "{cut} words fewer");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_words_never_panic(words in prop::collection::vec(any::<u32>(), 0..60)) {
        let _ = reflect(&words);
    }

    #[test]
    fn arbitrary_instructions_never_panic(
        instructions in prop::collection::vec(
            (prop_oneof![0u32..520, 4100u32..7000, any::<u16>().prop_map(u32::from)], prop::collection::vec(0u32..24, 0..9)),
            0..60,
        )
    ) {
        let mut words = vec![0x0723_0203, 0x0001_0300, 0, 24, 0];
        for (opcode, operands) in instructions {
            words.push((operands.len() as u32 + 1) << 16 | opcode);
            words.extend(operands);
        }
        let _ = reflect(&words);
    }

    #[test]
    fn mutated_modules_never_panic(
        which in any::<prop::sample::Index>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), prop_oneof![0u32..400, any::<u32>()]), 1..12),
        cut in any::<prop::sample::Index>(),
        cuts in any::<bool>(),
    ) {
        let mut words = VALID[which.index(VALID.len())].clone();
        for (index, word) in changes {
            let index = index.index(words.len());
            words[index] = word;
        }
        if cuts {
            words.truncate(cut.index(words.len()));
        }
        let _ = reflect(&words);
    }

    #[test]
    fn one_changed_operand_never_panics(
        which in any::<prop::sample::Index>(),
        at in any::<prop::sample::Index>(),
        word in 0u32..300,
    ) {
        let mut words = VALID[which.index(VALID.len())].clone();
        // Keeps the framing: only words that begin no instruction are changed.
        let mut operands = Vec::new();
        let mut next = 5;
        for (index, word) in words.iter().enumerate().skip(5) {
            if index == next { next += (word >> 16) as usize } else { operands.push(index) }
        }
        words[operands[at.index(operands.len())]] = word;
        let _ = reflect(&words);
    }
}
