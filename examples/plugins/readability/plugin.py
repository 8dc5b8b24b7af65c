"""readability: a plugin in Python without any code of Ferment.

Two capabilities: a check that a text is easy enough to read, and a title that
asks the host for a summary and counts in the host's store how many it made.

    ferment conform --samples samples.edn -- /usr/bin/python3 plugin.py
    ferment act text/readability '{:text "Bees dance. Others read it."}'
"""

import re

from ferment import Answer, Capability, Plugin, Refusal, Setting, need, serve


def syllables(word):
    """Groups of vowels, which is near enough for English."""
    return max(1, len(re.findall(r"[aeiouy]+", word.lower().removesuffix("e"))))


def readability(input, call):
    """The grade of Flesch and Kincaid: years of school that a text asks for."""
    text = need(input, "text", str)
    words = re.findall(r"[^\W\d_]+", text)
    sentences = max(1, len(re.findall(r"[.?!]+(?:\s|$)", text)))
    if not words:
        raise Refusal("text/nothing-to-summarize", "the text has no words")
    grade = 0.39 * len(words) / sentences + 11.8 * sum(map(syllables, words)) / len(words) - 15.59
    findings = []
    if grade > call.config["max-grade"]:
        findings.append({"message": f"grade {grade:.1f} is above {call.config['max-grade']:.1f}: shorter sentences help"})
    return {"ok?": not findings, "grade": round(grade, 1), "words": len(words), "sentences": sentences, "findings": findings}


async def title(input, call):
    text = need(input, "text", str)
    try:
        text = (await call.ask("context/summarize", {"text": text})).get("summary", text)
    except Refusal as e:
        if e.type != "unsupported/intent":
            raise
        call.log("info", "nobody can summarize, so the title is made of the text itself")
    while True:  # until nobody else has counted in between
        made, version, _ = await call.state("get", "titles")
        _, _, conflict = await call.state("put", "titles", (made or 0) + 1, if_version=version)
        if not conflict:
            break
    words = re.findall(r"\S+", text)
    if not words:
        raise Refusal("text/nothing-to-summarize", "the text has no words")
    return Answer({"title": " ".join(words[:6]).rstrip(".,;:?").title(), "made": (made or 0) + 1})


plugin = Plugin(
    "readability",
    "0.1.0",
    features=["host-calls"],
    settings={"max-grade": Setting(float, 12.0, "the most years of school that a text may ask for")},
    capabilities=[
        Capability(
            "demo/readability",
            readability,
            ["text/readability"],
            kind="checker",
            takes="[:map [:text :string]]",
            gives="[:map [:ok? :boolean] [:grade :double] [:words :int] [:sentences :int] [:findings [:sequential [:map [:message :string]]]]]",
            deterministic=True,
        ),
        Capability(
            "demo/title",
            title,
            ["text/title"],
            takes="[:map [:text :string]]",
            gives="[:map [:title :string] [:made :int]]",
        ),
    ],
)

if __name__ == "__main__":
    serve(plugin)
