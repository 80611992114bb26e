"""The default agent loop of Terret: call the model, run the tools, repeat."""
