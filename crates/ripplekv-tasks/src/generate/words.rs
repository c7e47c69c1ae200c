//! Our own word lists: people, towns and things that the generated texts are made of.
//! Nothing here is taken from a data set.

pub(super) const FIRST_NAMES: &[&str] = &[
    "Mara", "Tobias", "Ingrid", "Felix", "Noor", "Callum", "Petra", "Hugo", "Selma", "Anton",
    "Willa", "Rafael", "Greta", "Omar", "Linnea", "Jonas", "Priya", "Edgar", "Naomi", "Viktor",
    "Clara", "Samir", "Helga", "Bruno", "Yara", "Oscar", "Tilda", "Marek", "Fiona", "Dario",
    "Astrid", "Leon", "Judith", "Pascal", "Rosa", "Emil",
];

pub(super) const LAST_NAMES: &[&str] = &[
    "Lindqvist",
    "Harrow",
    "Castell",
    "Brandt",
    "Okafor",
    "Pell",
    "Marchetti",
    "Winter",
    "Sorley",
    "Dunmore",
    "Vasquez",
    "Kettle",
    "Aldous",
    "Novak",
    "Thorne",
    "Bellamy",
    "Ferro",
    "Quist",
    "Hathaway",
    "Moreau",
    "Stone",
    "Ibsen",
    "Carver",
    "Lowell",
    "Rask",
    "Tanner",
    "Fairley",
    "Osman",
    "Birch",
    "Keller",
    "Drummond",
    "Sato",
    "Weaver",
    "Halloran",
    "Voss",
    "Arden",
];

pub(super) const TOWNS: &[&str] = &[
    "Thornbury",
    "Millhaven",
    "Eastwick",
    "Copperfield",
    "Larkspur",
    "Stonebridge",
    "Ashford",
    "Greenmoor",
    "Saltmarsh",
    "Winterton",
    "Harborough",
    "Foxdale",
    "Elmsworth",
    "Kingsferry",
    "Redcliff",
    "Oakhurst",
    "Marlow",
    "Silverlake",
    "Brackenhill",
    "Westbrook",
    "Fernley",
    "Goldcrest",
    "Ravensdale",
    "Summerfield",
];

pub(super) const COLOURS: &[&str] = &[
    "red", "blue", "green", "yellow", "white", "black", "orange", "purple", "silver", "brown",
    "pink", "grey",
];

pub(super) const ANIMALS: &[&str] = &[
    "goat", "donkey", "parrot", "pony", "kitten", "puppy", "rooster", "goose", "rabbit",
    "tortoise", "raven", "hedgehog",
];

pub(super) const PET_NAMES: &[&str] = &[
    "Juniper", "Biscuit", "Pepper", "Marigold", "Captain", "Nutmeg", "Domino", "Clover", "Ginger",
    "Pickle", "Thistle", "Button", "Mango", "Sparrow", "Waffle", "Rusty",
];

pub(super) const ROOMS: &[&str] = &[
    "boat shed",
    "wine cellar",
    "north gate",
    "tool room",
    "reading room",
    "bell tower",
    "glass house",
    "old bakery",
    "engine room",
    "map room",
    "stable",
    "chapel",
    "granary",
    "laundry",
    "ice house",
    "music room",
];

pub(super) const HIDING_PLACES: &[&str] = &[
    "under the blue flowerpot",
    "behind the tall clock",
    "inside the old teapot",
    "on top of the bookcase",
    "beneath the stone bench",
    "in the third drawer",
    "behind the rain barrel",
    "inside the red lantern",
    "under the doormat",
    "above the kitchen window",
    "in the empty beehive",
    "next to the sundial",
];

pub(super) const GOODS: &[&str] = &[
    "copper kettle",
    "wooden ladder",
    "brass telescope",
    "fishing net",
    "silver mirror",
    "oak table",
    "sewing machine",
    "bicycle",
    "leather saddle",
    "grandfather clock",
    "iron stove",
    "painted chest",
    "accordion",
    "garden roller",
    "typewriter",
    "birdcage",
];

pub(super) const INSTRUMENTS: &[&str] = &[
    "cello",
    "trumpet",
    "flute",
    "harp",
    "banjo",
    "piano",
    "violin",
    "drums",
    "clarinet",
    "accordion",
    "guitar",
    "organ",
];

pub(super) const TRADES: &[&str] = &[
    "baker",
    "carpenter",
    "dentist",
    "teacher",
    "gardener",
    "pilot",
    "tailor",
    "plumber",
    "librarian",
    "farmer",
    "painter",
    "nurse",
];

pub(super) const COLLECTIONS: &[&str] = &[
    "stamps",
    "clocks",
    "seashells",
    "postcards",
    "buttons",
    "coins",
    "teapots",
    "maps",
    "feathers",
    "keys",
    "marbles",
    "lanterns",
];

pub(super) const DISHES: &[&str] = &[
    "onion soup",
    "apple pie",
    "lentil stew",
    "mushroom tart",
    "fish cakes",
    "plum dumplings",
    "barley bread",
    "potato salad",
    "lemon cake",
    "bean curry",
    "cheese toast",
    "carrot soup",
];

pub(super) const WEATHER: &[&str] = &[
    "light rain",
    "thick fog",
    "a clear sky",
    "a cold east wind",
    "a low sky",
    "steady drizzle",
    "bright sunshine",
    "a warm breeze",
    "sleet",
    "distant thunder",
    "heavy dew",
    "soft snow",
];

pub(super) const TIMES: &[&str] = &[
    "early in the morning",
    "shortly before noon",
    "in the afternoon",
    "towards evening",
    "after supper",
    "just after sunrise",
    "before the midday meal",
    "late at night",
];
