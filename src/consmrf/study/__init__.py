"""The paper's comparison as a command: a study file in, cells run one by one, a report out."""
