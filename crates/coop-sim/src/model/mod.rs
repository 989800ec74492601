//! A model server that says what a script tells it to.
