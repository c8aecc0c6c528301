"""The paper's running example, with known answers: the generator, and the story that `consmrf demo` tells."""
