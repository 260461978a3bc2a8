//! Takes a chunk's bytes one after the other, and says where they end too early.

use super::damaged::Damage;
use super::varint;

pub struct Reader<'a> {
    left: &'a [u8],
}

impl<'a> Reader<'a> {
    pub fn of(bytes: &'a [u8]) -> Self {
        Self { left: bytes }
    }

    pub fn byte(&mut self) -> Result<u8, Damage> {
        let (first, left) = self.left.split_first().ok_or(Damage::Ends)?;
        self.left = left;
        Ok(*first)
    }

    pub fn bytes(&mut self, count: u64) -> Result<&'a [u8], Damage> {
        let count = usize::try_from(count).map_err(|_| Damage::Ends)?;
        let (taken, left) = self.left.split_at_checked(count).ok_or(Damage::Ends)?;
        self.left = left;
        Ok(taken)
    }

    /// A [`varint`].
    pub fn number(&mut self) -> Result<u64, Damage> {
        let mut number = 0;
        for place in 0..varint::MOST_BYTES {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            number |= bits << (7 * place);
            if byte < 0x80 {
                return if number >> (7 * place) == bits { Ok(number) } else { Err(Damage::Number) };
            }
        }
        Err(Damage::Number)
    }

    pub fn numbers(&mut self, count: usize) -> Result<Vec<u64>, Damage> {
        (0..count).map(|_| self.number()).collect()
    }

    /// All that is left.
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.left)
    }

    /// Nothing may be left.
    pub fn end(&self) -> Result<(), Damage> {
        match self.left.len() {
            0 => Ok(()),
            more => Err(Damage::GoesOn(more)),
        }
    }
}
