//! Entry points for fuzzing. Not part of the public interface.
