package generate

// Rows of the tables that grow: customers, orders and their line items
// (clause 4.2.3).

func (d *tpchData) customer(r rng, i int64, out []byte) []byte {
	key := i + 1
	nation := r.between(0, int64(len(tpchNations)-1))
	out = column(out, key)
	out = numbered(out, "Customer#", key)
	out = append(address(&r, out, 10, 40), '|')
	out = column(out, nation)
	out = phone(&r, out, nation)
	out = money(out, r.between(-99_999, 999_999))
	out = textColumn(out, pick(&r, tpchSegments))
	return endRow(d.comment(&r, out, 29, 116))
}

// tpchOrder is an order with its items. The tables orders and lineitem each
// compute it from the same random numbers, which is cheaper than passing it
// from one to the other.
type tpchOrder struct {
	key, customer, day int64
	n                  int // lines in use
	lines              [7]tpchLine
}

type tpchLine struct {
	part, supplier, quantity  int64
	price                     int64 // cents
	discount, tax             int64 // per cent
	shipped, promised, landed int64 // days since 1992-01-01
	returned                  byte
}

// orderKey returns a sparse key: of each 32 keys only the first 8 are used.
func orderKey(i int64) int64 { return i/8*32 + i%8 + 1 }

// orderCustomer draws a customer whose key is no multiple of three: a third of
// the customers never order.
func (d *tpchData) orderCustomer(r *rng) int64 {
	k := r.between(0, d.customers-d.customers/3-1)
	return k/2*3 + k%2 + 1
}

func (d *tpchData) order(i int64) (o tpchOrder) {
	r := d.orderings.at(i)
	o.key = orderKey(i)
	o.customer = d.orderCustomer(&r)
	o.day = r.between(0, tpchDays-1-151) // so that the last item lands by ENDDATE
	o.n = int(r.between(1, int64(len(o.lines))))
	for k := range o.lines[:o.n] {
		o.lines[k] = d.line(&r, o.day)
	}
	return o
}

func (d *tpchData) line(r *rng, ordered int64) (l tpchLine) {
	l.part = r.between(1, d.parts)
	l.supplier = d.suppliersOf(l.part)[r.between(0, suppliersOfPart-1)]
	l.quantity = r.between(1, 50)
	l.price = l.quantity * retailPrice(l.part)
	l.discount = r.between(0, 10)
	l.tax = r.between(0, 8)
	l.shipped = ordered + r.between(1, 121)
	l.promised = ordered + r.between(30, 90)
	l.landed = l.shipped + r.between(1, 30)
	l.returned = 'N'
	if l.landed <= tpchCurrent {
		l.returned = "RA"[r.between(0, 1)]
	}
	return l
}

// status returns L_LINESTATUS.
func (l *tpchLine) status() byte {
	if l.shipped > tpchCurrent {
		return 'O'
	}
	return 'F'
}

// status returns O_ORDERSTATUS: the status of the items if it is the same for
// all, else P.
func (o *tpchOrder) status() byte {
	first := o.lines[0].status()
	for k := range o.lines[:o.n] {
		if o.lines[k].status() != first {
			return 'P'
		}
	}
	return first
}

// total is O_TOTALPRICE in cents: the exact sum of price·(1+tax)·(1-discount),
// rounded once, half up.
func (o *tpchOrder) total() int64 {
	var sum int64 // 1/10,000 cent
	for k := range o.lines[:o.n] {
		l := &o.lines[k]
		sum += l.price * (100 + l.tax) * (100 - l.discount)
	}
	return (sum + 5_000) / 10_000
}

func (d *tpchData) orderRow(r rng, i int64, out []byte) []byte {
	o := d.order(i)
	out = column(out, o.key)
	out = column(out, o.customer)
	out = append(out, o.status(), '|')
	out = money(out, o.total())
	out = d.date(out, o.day)
	out = textColumn(out, pick(&r, tpchPriorities))
	out = numbered(out, "Clerk#", r.between(1, d.clerks))
	out = column(out, 0)
	return endRow(d.comment(&r, out, 19, 78))
}

// lineRows appends the items of order i.
func (d *tpchData) lineRows(r rng, i int64, out []byte) []byte {
	o := d.order(i)
	for k := range o.lines[:o.n] {
		l := &o.lines[k]
		out = column(out, o.key)
		out = column(out, l.part)
		out = column(out, l.supplier)
		out = column(out, int64(k+1))
		out = column(out, l.quantity)
		out = money(out, l.price)
		out = money(out, l.discount)
		out = money(out, l.tax)
		out = append(out, l.returned, '|', l.status(), '|')
		out = d.date(d.date(d.date(out, l.shipped), l.promised), l.landed)
		out = textColumn(out, pick(&r, tpchInstructions))
		out = textColumn(out, pick(&r, tpchModes))
		out = endRow(d.comment(&r, out, 10, 43))
	}
	return out
}

func (d *tpchData) date(out []byte, day int64) []byte {
	return append(append(out, d.dates[day]...), '|')
}
