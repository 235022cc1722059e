//! Profiles of settings: read, compared, applied, put back.
