"""Texts written for the fixtures: a harbour's logbook and a few lines in other scripts and code."""

_SENTENCES = [
    "The tide turned before the bakery opened, and the first boat slid past the breakwater without a sound.",
    "Marta counted the crates twice, wrote the number on her palm, and still got it wrong in the ledger.",
    "A crane that had not moved since spring lifted its arm, as if it wanted to ask a question.",
    "Nobody could say who had painted the lighthouse door blue, though everyone had an opinion about the colour.",
    "The ferry to the outer islands carries bread, letters, a doctor on Tuesdays, and sometimes a goat.",
    "When fog comes in from the north the bell rings every forty seconds, and the dogs answer it.",
    "Old Ferran keeps a notebook of storms; he draws the clouds first and adds the words in winter.",
    "The new engine needs less oil than the old one, but it complains in a language nobody here speaks.",
    "At low water you can walk to the wreck, touch the iron ribs, and be back before the kettle boils.",
    "The inspector measured the rope, the chain and the anchor, and then asked for a cup of coffee.",
    "Two children sold lemonade from an upturned crate until the wind took their sign across the bay.",
    "There were three kinds of knots on the wall, and the fourth hook was empty on purpose.",
    "The radio played the same song at noon every day, which is how the fishermen set their watches.",
    "Salt had eaten the lower half of the timetable, so visitors guessed and the locals remembered.",
    "Ines repaired the net with green twine because the brown had run out, and the fish did not mind.",
    "On paper the harbour closes at ten; in truth it closes when the last lamp goes out.",
]

_WEATHER = ["clear", "light rain", "fog until nine", "a stiff north-easter", "heat haze", "hail, briefly"]


def _logbook() -> str:
    lines = ["Logbook of the small harbour, kept by the night watch.\n"]
    for day in range(1, 29):
        first = _SENTENCES[(day * 5) % len(_SENTENCES)]
        second = _SENTENCES[(day * 3 + 7) % len(_SENTENCES)]
        lines.append(
            f"Day {day}: {_WEATHER[day % len(_WEATHER)]}; {2 + day * 7 % 11} boats in, {1 + day * 5 % 9} out. "
            f"{first} {second}\n"
        )
    return "\n".join(lines)


LOGBOOK = _logbook()

TRAINING_TEXTS = [
    *_SENTENCES,
    "fn count(boats: &[Boat]) -> usize {\n    boats.iter().filter(|boat| boat.is_in()).count()\n}\n",
    "def tide(hour):\n    return 2.0 + 1.5 * math.sin(hour / 12.4206 * 2 * math.pi)\n",
    "I'm late, you're early, they've left, we'll wait, he'd know, it's fine, she isn't here.",
    "1 22 333 4444 55555 2026 100 200 300 1000 2000 10 20 30",
    "Der Hafen schlie\u00dft sp\u00e4t. Le port est d\u00e9j\u00e0 ferm\u00e9. El faro est\u00e1 lejos. P\u0159\u00edstav je tich\u00fd.",
    "\u6e2f\u53e3\u5f88\u5b89\u9759\u3002\u6e2f\u306f\u9759\u304b\u3067\u3059\u3002\ud56d\uad6c\ub294 \uc870\uc6a9\ud558\ub2e4. \u0413\u0430\u0432\u0430\u043d\u044c \u0442\u0438\u0445\u0430\u044f. \u0627\u0644\u0645\u064a\u0646\u0627\u0621 \u0647\u0627\u062f\u0626.",
    "    indented\n        more\n\tby tab\r\nwindows line\r\n\r\n\n\nblank lines   and   spaces    here",
]
