//! Random numbers from the system.

use crate::CampaignError;
use std::fs::File;
use std::io::Read;

fn random<const N: usize>() -> Result<[u8; N], CampaignError> {
    let mut bytes = [0; N];
    File::open("/dev/urandom").and_then(|mut source| source.read_exact(&mut bytes)).map_err(CampaignError::Random)?;
    Ok(bytes)
}

/// A key of 32 bytes for one endpoint, in hexadecimal.
pub(crate) fn fresh() -> Result<String, CampaignError> {
    Ok(random::<32>()?.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// A seed for a plan that has none, below 2^53: exact for every JSON reader, and within a plan's TOML.
pub(crate) fn seed() -> Result<u64, CampaignError> {
    Ok(u64::from_le_bytes(random::<8>()?) >> 11)
}

#[cfg(test)]
mod tests {
    #[test]
    fn keys_differ() {
        let (a, b) = (super::fresh().unwrap(), super::fresh().unwrap());
        assert_eq!(a.len(), 64);
        assert_ne!(a, b);
        assert!(super::seed().unwrap() < 1 << 53);
    }
}
