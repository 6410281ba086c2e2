package generate

import "strings"

// The lists of clause 4.2.2.13 and the nations and regions of clause 4.2.3.

var tpchRegions = []string{"AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST"}

// tpchNations gives each nation's region; its place in the list is its key.
var tpchNations = []struct {
	name   string
	region int64
}{
	{"ALGERIA", 0}, {"ARGENTINA", 1}, {"BRAZIL", 1}, {"CANADA", 1}, {"EGYPT", 4},
	{"ETHIOPIA", 0}, {"FRANCE", 3}, {"GERMANY", 3}, {"INDIA", 2}, {"INDONESIA", 2},
	{"IRAN", 4}, {"IRAQ", 4}, {"JAPAN", 2}, {"JORDAN", 4}, {"KENYA", 0},
	{"MOROCCO", 0}, {"MOZAMBIQUE", 0}, {"PERU", 1}, {"CHINA", 2}, {"ROMANIA", 3},
	{"SAUDI ARABIA", 4}, {"VIETNAM", 2}, {"RUSSIA", 3}, {"UNITED KINGDOM", 3}, {"UNITED STATES", 1},
}

// A p_type is a word of each of the three lists, a p_container of each of two.
var (
	tpchType1      = strings.Fields("STANDARD SMALL MEDIUM LARGE ECONOMY PROMO")
	tpchType2      = strings.Fields("ANODIZED BURNISHED PLATED POLISHED BRUSHED")
	tpchType3      = strings.Fields("TIN NICKEL BRASS STEEL COPPER")
	tpchContainer1 = strings.Fields("SM LG MED JUMBO WRAP")
	tpchContainer2 = strings.Fields("CASE BOX BAG JAR PKG PACK CAN DRUM")
)

var (
	tpchSegments     = strings.Fields("AUTOMOBILE BUILDING FURNITURE MACHINERY HOUSEHOLD")
	tpchPriorities   = []string{"1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED", "5-LOW"}
	tpchInstructions = []string{"DELIVER IN PERSON", "COLLECT COD", "NONE", "TAKE BACK RETURN"}
	tpchModes        = []string{"REG AIR", "AIR", "RAIL", "SHIP", "TRUCK", "MAIL", "FOB"}
)

// tpchColors are the words of p_name, five different ones in each.
var tpchColors = strings.Fields(`almond antique aquamarine azure beige bisque black blanched blue
	blush brown burlywood burnished chartreuse chiffon chocolate coral cornflower cornsilk cream
	cyan dark deep dim dodger drab firebrick floral forest frosted gainsboro ghost goldenrod green
	grey honeydew hot indian ivory khaki lace lavender lawn lemon light lime linen magenta maroon
	medium metallic midnight mint misty moccasin navajo navy olive orange orchid pale papaya peach
	peru pink plum powder puff purple red rose rosy royal saddle salmon sandy seashell sienna sky
	slate smoke snow spring steel tan thistle tomato turquoise violet wheat white yellow`)

// The vocabulary of comments: a part of the specification's lists.
var (
	tpchNouns = strings.Fields(`foxes ideas theodolites instructions dependencies excuses platelets
		asymptotes courts dolphins multipliers warthogs frets attainments patterns forges braids
		dugouts epitaphs pearls waters orbits gifts sheaves depths sentiments decoys realms pains
		accounts packages requests deposits`)
	tpchVerbs = strings.Fields(`sleep wake are cajole haggle nag use boost affix detect integrate
		maintain nod was lose sublate solve thrash promise engage hinder print doze run dazzle snooze`)
	tpchAdjectives = strings.Fields(`furious sly careful blithe quick fluffy slow quiet ruthless thin
		close dogged daring brave stealthy permanent enticing idle busy regular final ironic even bold
		silent special pending express unusual`)
	tpchAdverbs = strings.Fields(`sometimes always never furiously slyly carefully blithely quickly
		fluffily slowly quietly ruthlessly thinly closely doggedly daringly bravely stealthily
		permanently enticingly idly busily regularly finally ironically evenly boldly silently`)
	tpchPrepositions = []string{"about", "above", "according to", "across", "after", "against",
		"along", "alongside of", "among", "around", "at", "atop", "before", "behind", "beneath",
		"beside", "besides", "between", "beyond", "by", "despite", "during", "except", "for", "from",
		"in place of", "inside", "instead of", "into", "near", "of", "on", "outside", "over", "past",
		"since", "through", "throughout", "to", "toward", "under", "until", "up", "upon", "without",
		"with", "within"}
	tpchAuxiliaries = []string{"do", "may", "might", "shall", "will", "would", "can", "could",
		"should", "ought to", "must", "will have to", "shall have to", "could have to",
		"should have to", "must have to", "need to", "try to"}
	tpchTerminators = []string{".", ";", ":", "?", "!", "--"}
)
