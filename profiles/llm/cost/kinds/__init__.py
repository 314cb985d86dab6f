"""What only some kinds of models have in a step: experts, latent attention, windows, towers that see, drafts."""
