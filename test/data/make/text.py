"""Makes a small text of real English, and its bytes as tokens.

The text is that of three licences that may be copied verbatim: Apache 2.0, CC0 1.0 and
Python's own, as Debian and Python install them.
"""
import os
import sysconfig

import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
COMMON = "/usr/share/common-licenses"
parts = [os.path.join(COMMON, "Apache-2.0"), os.path.join(COMMON, "CC0-1.0"),
         os.path.join(sysconfig.get_path("stdlib"), "LICENSE.txt")]
text = "\n".join(open(part, encoding="utf-8").read() for part in parts)
with open(os.path.join(ROOT, "test", "data", "text.txt"), "w", encoding="utf-8") as f:
    f.write(text)
tokens = np.frombuffer(text.encode(), np.uint8).astype("<u2")
os.makedirs(os.path.join(ROOT, "test", "data", "gpt2"), exist_ok=True)
tokens.tofile(os.path.join(ROOT, "test", "data", "gpt2", "text.bin"))
print(len(tokens), "tokens")
