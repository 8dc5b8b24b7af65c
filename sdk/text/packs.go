package text

import (
	"strings"
	"sync"
)

// pack is what is particular to one language.
type pack struct {
	abbreviations map[string]bool // lower case, without the last point
	stop          map[string]bool // words that carry no topic
}

// packs are made on first use.
var packs = sync.OnceValue(func() map[string]pack {
	out := map[string]pack{}
	for code, d := range packData {
		out[code] = pack{set(d.abbreviations), set(d.common + " " + d.stop)}
	}
	return out
})

// Languages are the codes of the languages with a pack, in order.
func Languages() []string { return []string{"en", "pl", "de", "fr", "es"} }

// Stopword tells whether a word, in lower case, carries no topic in the
// language; with an unknown language, in any.
func Stopword(word, language string) bool {
	if p, ok := packs()[language]; ok {
		return p.stop[word]
	}
	for _, p := range packs() {
		if p.stop[word] {
			return true
		}
	}
	return false
}

func set(words string) map[string]bool {
	out := map[string]bool{}
	for w := range strings.FieldsSeq(words) {
		out[w] = true
	}
	return out
}

// packText is a pack as it is written down.
type packText struct {
	abbreviations string // without the last point
	common        string // short function words by which the language is known
	stop          string // more words that carry no topic
	letters       string // those that hardly occur in the other languages
}

// packData holds words of five languages.
var packData = map[string]packText{
	"en": {
		abbreviations: "mr mrs ms dr prof sr jr st mt vs etc e.g i.e cf fig figs no nos vol pp approx dept est inc ltd co corp gen col lt sgt capt rev hon gov sen rep jan feb mar apr jun jul aug sep sept oct nov dec a.m p.m u.s u.k ca al ed eds",
		common:        "the of and to in is that it was for on are with as his they be at this have from or had by but what some we can out other were all there when up use your how said an each she which do their time if will about then them would these so her him has two more than been who its now my over did down only may the",
		stop:          "i a not no he you me us our any very also into because while where why whom whose being does doing until against between through during before after above below again further once here both few most such own same too just should could must might shall upon within without however thus therefore yet one much many every those please i'm let am cannot don't doesn't let's",
	},
	"pl": {
		abbreviations: "np tzn tj itd itp m.in dr prof mgr inż ul al nr tel ok godz r w ws wg por im ks gen płk św ob o.o pkt str tab rys red zob jw tzw ww",
		common:        "i w na nie się z do to że o jest jak po co tak za od ale czy przez dla był jego jej ich tym przy być są oraz już tylko może także który która które ten ta te tego tej bez pod nad więc gdy jeśli lub przed między również bardzo",
		stop:          "a my wy oni one ona ono on ja ty mnie ciebie nas was im jemu niej nim nich swój swoje swoich tam tu teraz potem kiedy gdzie dlaczego każdy każda wszystko wszystkie można trzeba jednak ponieważ aby żeby będzie były było była byli został została zostało mają ma miał mi ci mój moja moje twój jaki jaka jakie ile jakiś proszę chyba właśnie tych tymi sobie siebie",
		letters:       "ąćęłńśźż",
	},
	"de": {
		abbreviations: "z.b d.h u.a usw bzw ca dr prof hr fr nr str vgl evtl ggf inkl exkl max min abb tab bd hrsg s.o s.u o.ä u.ä sog st tel jan feb apr aug sept okt nov dez mio mrd",
		common:        "der die und in den von zu das mit sich des auf für ist im dem nicht ein eine als auch es an werden aus er hat dass sie nach wird bei einer um am sind noch wie einem über einen so zum war haben nur oder aber vor zur bis mehr durch man sein wurde wenn",
		stop:          "ich du wir ihr mich dich uns euch mein dein unser kein keine doch schon sehr hier dort dann weil damit jedoch diese dieser dieses diesem diesen jede jeder jedes alle alles viel viele kann können muss müssen soll sollen will wollen hatte hatten waren worden ohne gegen unter zwischen während mir dir ihm ihn ihnen bitte kannst könnte könnten würde worum wer was wo warum meine meinen meinem meiner deine euer dies etwas nichts also nun ja nein wenigen",
		letters:       "äöüß",
	},
	"fr": {
		abbreviations: "m mm mme mlle dr pr st ste etc p.ex c.-à-d cf fig no n° vol pp env av bd chap éd réf art tél janv févr avr juil sept oct nov déc",
		common:        "de la le et les des en un une du que est pour qui dans a par plus pas au sur ne se ce il sont avec son ou aux mais comme été cette ses leur nous elle on ont était tout fait même ces deux si être sans entre après encore aussi très",
		stop:          "je tu vous ils elles me te moi toi lui y dont où quand pourquoi donc car ni alors ainsi cela ceci celui celle ceux celles chaque plusieurs quelques tous toute toutes avait avaient sera seront peut peuvent doit doivent depuis pendant contre sous vers chez mon ma mes ton ta tes notre votre vos leurs quoi quel quelle quels quelles cet peux veux dis va vas fais l d j c n qu",
		letters:       "àâæçèêëîïôœùûÿ",
	},
	"es": {
		abbreviations: "sr sra srta dr dra d dña ud uds etc p.ej pág págs núm fig vol cap art ed aprox av avda tel ee.uu ene feb mar abr jun jul ago sept oct nov dic",
		common:        "de la que el en y a los se del las un por con no una su para es al lo como más o pero sus le ha me si sin sobre este ya entre cuando todo esta ser son dos también fue había era muy años hasta desde está mi porque qué sólo han",
		stop:          "yo tú él ella nosotros ellos ellas te nos os mí ti ni donde quien cual cuyo cada otro otra otros otras mucho mucha muchos muchas algo alguno alguna ese esa eso esos esas aquel aquella puede pueden debe deben tiene tienen hace hacen sido siendo así entonces luego mientras contra bajo hacia ante mis tu tus nuestro nuestra cuánto cuántos cuánta cuántas cuál cuáles cómo dónde quién necesito quiero hazme unos unas favor nada dime",
		letters:       "ñ¿¡",
	},
}
