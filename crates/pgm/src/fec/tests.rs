//! The code against answers of another program, against the textbook's construction, and by property.

use super::*;
use proptest::prelude::*;

/// Data packet `number` of the known answers.
fn recipe(number: usize, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| u8::try_from((number * 31 + at * 7 + (number * at) % 13) & 0xff).unwrap()).collect()
}

fn parity(data: &[Vec<u8>], index: usize) -> Vec<u8> {
    parity_on(&Basis::of_data(data.len()), data, index)
}

fn parity_on(basis: &Basis, data: &[Vec<u8>], index: usize) -> Vec<u8> {
    let mut coefficients = vec![0; data.len()];
    basis.coefficients(data.len() + index, &mut coefficients);
    let mut out = vec![0; data.iter().map(Vec::len).max().unwrap_or(0)];
    combine(&coefficients, |at| &data[at], &mut out);
    out
}

/// From zfec 1.6.0.0: `zfec.Encoder(k, n).encode(data, range(k, n))`, data as by `recipe`.
#[test]
fn known_answers_of_zfec() {
    let answers: [(usize, usize, usize, &str); 14] = [
        (2, 4, 0, "3e474c51"),
        (2, 4, 1, "7c878a9d"),
        (4, 8, 0, "2b332ac8e6e0b4b3"),
        (4, 8, 1, "803ad2155c084159"),
        (4, 8, 3, "86bcaf7285e857d3"),
        (8, 8, 0, "8aad44af896b6f90"),
        (8, 8, 1, "8e9e04d3a16c511c"),
        (8, 8, 3, "733352459ac475d9"),
        (64, 4, 0, "1e25a663"),
        (64, 4, 1, "4c44dce0"),
        (64, 4, 190, "43ef7fa9"),
        (128, 4, 0, "90cb7431"),
        (128, 4, 1, "c850258c"),
        (128, 4, 126, "057c2047"),
    ];
    for (group, bytes, index, answer) in answers {
        let data: Vec<Vec<u8>> = (0..group).map(|number| recipe(number, answer.len() / 2)).collect();
        let hex: String = parity(&data, index).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, answer, "{group} packets of {bytes} bytes, parity {index}");
    }
}

/// Gauss and Jordan, on a matrix of the field: what Rizzo's construction inverts.
fn inverse(mut matrix: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    let size = matrix.len();
    for (at, row) in matrix.iter_mut().enumerate() {
        row.extend((0..size).map(|column| u8::from(column == at)));
    }
    for at in 0..size {
        let other = (at..size).find(|row| matrix[*row][at] != 0).unwrap();
        matrix.swap(at, other);
        let by = matrix[at][at];
        for value in &mut matrix[at] {
            *value = field::over(*value, by);
        }
        let pivot = matrix[at].clone();
        for (_, row) in matrix.iter_mut().enumerate().filter(|(row, _)| *row != at) {
            let by = row[at];
            for (value, less) in row.iter_mut().zip(&pivot) {
                *value ^= field::times(by, *less);
            }
        }
    }
    matrix.into_iter().map(|row| row[size..].to_vec()).collect()
}

/// Row r of the Vandermonde matrix: 1, 0, 0 … for the first, then the powers of 2 to the r - 1.
fn row(number: usize, columns: usize) -> Vec<u8> {
    (0..columns)
        .map(|column| match number {
            0 => u8::from(column == 0),
            _ => field::power(((number - 1) * column) % 255),
        })
        .collect()
}

#[test]
fn coefficients_are_those_of_the_vandermonde_matrix() {
    for group in [1, 2, 3, 8, 17, 64] {
        let top = inverse((0..group).map(|number| row(number, group)).collect());
        let basis = Basis::of_data(group);
        for number in group..MAX_BLOCK {
            let below = row(number, group);
            let expected: Vec<u8> = (0..group)
                .map(|column| (0..group).fold(0, |sum, at| sum ^ field::times(below[at], top[at][column])))
                .collect();
            let mut ours = vec![0; group];
            basis.coefficients(number, &mut ours);
            assert_eq!(ours, expected, "parity {number} over {group}");
        }
    }
}

#[test]
fn numbers_that_are_none_make_no_basis() {
    assert!(Basis::new(&[]).is_none());
    assert!(Basis::new(&[1, 2, 1]).is_none());
    assert!(Basis::new(&[255]).is_none());
    assert!(Basis::new(&(0..129).collect::<Vec<_>>()).is_none());
    assert_eq!(Basis::new(&(100..228).collect::<Vec<_>>()).map(|basis| basis.count), Some(128));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// Any k of n recover, whatever the lengths.
    #[test]
    fn any_k_of_n_recover(
        group in 1_usize..=128,
        seed in proptest::collection::vec(any::<u8>(), 1..40),
        bytes in prop_oneof![8 => 1_usize..40, 1 => 500_usize..1100],
        draw in any::<u64>(),
    ) {
        let mut state = draw | 1;
        let mut below = |limit: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            usize::try_from(state % limit as u64).unwrap()
        };
        let data: Vec<Vec<u8>> = (0..group)
            .map(|number| (0..bytes).map(|at| seed[(at * 5 + number * 3) % seed.len()] ^ u8::try_from((at + number) % 251).unwrap()).collect())
            .collect();
        // Any k of the block: a shuffle's beginning.
        let mut numbers: Vec<usize> = (0..MAX_BLOCK).collect();
        for at in 0..group {
            let with = at + below(MAX_BLOCK - at);
            numbers.swap(at, with);
        }
        numbers.truncate(group);
        let whole = Basis::of_data(group);
        let have: Vec<Vec<u8>> = numbers
            .iter()
            .map(|number| if *number < group { data[*number].clone() } else { parity_on(&whole, &data, number - group) })
            .collect();
        let basis = Basis::new(&numbers).unwrap();
        let mut coefficients = vec![0; group];
        // Each costs k: a few of them.
        for _ in 0..4 {
            let wanted = below(group);
            basis.coefficients(wanted, &mut coefficients);
            let mut out = vec![0; bytes];
            combine(&coefficients, |at| &have[at], &mut out);
            prop_assert_eq!(&out, &data[wanted]);
        }
    }

    #[test]
    fn sums_are_those_of_single_bytes(
        coefficients in proptest::collection::vec(any::<u8>(), 1..6),
        inputs in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..1200), 6),
        bytes in 0_usize..1300,
    ) {
        let mut out = vec![0xee; bytes];
        combine(&coefficients, |at| &inputs[at], &mut out);
        for (at, byte) in out.iter().enumerate() {
            let sum = coefficients.iter().zip(&inputs).fold(0, |sum, (coefficient, input)| {
                sum ^ field::times(*coefficient, input.get(at).copied().unwrap_or(0))
            });
            prop_assert_eq!(*byte, sum);
        }
    }
}
