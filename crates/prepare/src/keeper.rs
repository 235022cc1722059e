//! A process that undoes a change set when its owner vanishes, also by SIGKILL.
