package generate

import "strconv"

// Rows of the tables that do not change while the shop sells: regions,
// nations, suppliers, parts and who supplies which (clause 4.2.3).

func (d *tpchData) region(r rng, i int64, out []byte) []byte {
	out = column(out, i)
	out = textColumn(out, tpchRegions[i])
	return endRow(d.comment(&r, out, 31, 115))
}

func (d *tpchData) nation(r rng, i int64, out []byte) []byte {
	out = column(out, i)
	out = textColumn(out, tpchNations[i].name)
	out = column(out, tpchNations[i].region)
	return endRow(d.comment(&r, out, 31, 114))
}

func (d *tpchData) supplier(r rng, i int64, out []byte) []byte {
	key := i + 1
	nation := r.between(0, int64(len(tpchNations)-1))
	out = column(out, key)
	out = numbered(out, "Supplier#", key)
	out = append(address(&r, out, 10, 40), '|')
	out = column(out, nation)
	out = phone(&r, out, nation)
	out = money(out, r.between(-99_999, 999_999))
	start := len(out)
	out = d.comment(&r, out, 25, 100)
	d.judge(&r, out[start:], i)
	return endRow(out)
}

// judge writes "Customer … Complaints" over the comment of one supplier in each
// block, and "Customer … Recommends" over the comment of another one. The
// position and the text between the two words are random.
func (d *tpchData) judge(r *rng, comment []byte, i int64) {
	block := i / d.complaintBlock
	choice := d.complaints.at(block)
	bad := choice.between(0, d.complaintBlock-1)
	// From 1 on, so that the two are never one supplier.
	good := (bad + choice.between(1, d.complaintBlock-1)) % d.complaintBlock
	var verdict string
	switch i % d.complaintBlock {
	case bad:
		verdict = "Complaints"
	case good:
		verdict = "Recommends"
	default:
		return
	}
	const subject = "Customer"
	spare := int64(len(comment) - len(subject) - len(verdict))
	gap := r.between(0, spare)
	at := r.between(0, spare-gap)
	copy(comment[at:], subject)
	copy(comment[at+int64(len(subject))+gap:], verdict)
}

func (d *tpchData) part(r rng, i int64, out []byte) []byte {
	key := i + 1
	maker := r.between(1, 5)
	out = column(out, key)
	out = colors(&r, out)
	out = append(out, "Manufacturer#"...)
	out = column(out, maker)
	out = append(out, "Brand#"...)
	out = column(out, 10*maker+r.between(1, 5))
	out = append(tpchType(&r, out), '|')
	out = column(out, r.between(1, 50))
	out = append(append(out, pick(&r, tpchContainer1)...), ' ')
	out = textColumn(out, pick(&r, tpchContainer2))
	out = money(out, retailPrice(key))
	return endRow(d.comment(&r, out, 5, 22))
}

// colors appends five different words: a partial Fisher-Yates shuffle.
func colors(r *rng, out []byte) []byte {
	var deck [128]uint8
	n := int64(len(tpchColors))
	for i := range n {
		deck[i] = uint8(i)
	}
	for i := range int64(5) {
		j := r.between(i, n-1)
		deck[i], deck[j] = deck[j], deck[i]
		out = append(append(out, tpchColors[deck[i]]...), ' ')
	}
	out[len(out)-1] = '|'
	return out
}

// retailPrice is P_RETAILPRICE in cents.
func retailPrice(part int64) int64 {
	return 90_000 + part/10%20_001 + 100*(part%1000)
}

// suppliersOfPart is the number of rows of partsupp for each part.
const suppliersOfPart = 4

// suppliersOf returns the four suppliers of a part: PS_SUPPKEY for i = 0 to 3
// is
//
//	(part + i·(S/4 + (part-1)/S)) mod S + 1
//
// The four are different when S is a multiple of 10,000. At some small scales
// the formula repeats a supplier. It is then replaced by the next free one,
// because the pair is the table's key.
func (d *tpchData) suppliersOf(part int64) (keys [suppliersOfPart]int64) {
	s := d.suppliers
	for i := range keys {
		k := (part+int64(i)*(s/suppliersOfPart+(part-1)/s))%s + 1
		for j := 0; j < i; j++ {
			// -1, so that the new key is compared with all before it again.
			if keys[j] == k {
				k, j = k%s+1, -1
			}
		}
		keys[i] = k
	}
	return keys
}

// partsupp appends the four rows of part i.
func (d *tpchData) partsupp(r rng, i int64, out []byte) []byte {
	part := i + 1
	for _, supplier := range d.suppliersOf(part) {
		out = column(out, part)
		out = column(out, supplier)
		out = column(out, r.between(1, 9999))
		out = money(out, r.between(100, 100_000))
		out = endRow(d.comment(&r, out, 49, 198))
	}
	return out
}

// The columns. Each ends with its '|'; a comment, which is always the last, is
// ended by endRow.

func column(out []byte, n int64) []byte {
	return append(strconv.AppendInt(out, n, 10), '|')
}

func textColumn(out []byte, s string) []byte { return append(append(out, s...), '|') }

func endRow(out []byte) []byte { return append(out, '|', '\n') }

// money appends cents as an amount with two decimals.
func money(out []byte, cents int64) []byte {
	if cents < 0 {
		out, cents = append(out, '-'), -cents
	}
	out = strconv.AppendInt(out, cents/100, 10)
	return append(out, '.', byte('0'+cents/10%10), byte('0'+cents%10), '|')
}

// numbered appends a prefix and n with at least nine digits.
func numbered(out []byte, prefix string, n int64) []byte {
	out = append(out, prefix...)
	for limit := int64(100_000_000); n < limit && limit > 1; limit /= 10 {
		out = append(out, '0')
	}
	return column(out, n)
}

// phone appends country-area-exchange-number; the country code is the
// nation's key plus ten (clause 4.2.2.9).
func phone(r *rng, out []byte, nation int64) []byte {
	out = append(strconv.AppendInt(out, nation+10, 10), '-')
	out = append(strconv.AppendInt(out, r.between(100, 999), 10), '-')
	out = append(strconv.AppendInt(out, r.between(100, 999), 10), '-')
	return column(out, r.between(1000, 9999))
}
