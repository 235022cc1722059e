//! Where hosts come from; opens their pipes.
