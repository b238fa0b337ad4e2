"""How fast biasfree is beside its peers: ``python -m bench``. Ratios only mean something when measured in one run."""
