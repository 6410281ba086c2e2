package harness

import (
	"bytes"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"time"
)

// The server of the learning paper's URLGet job: delays and sizes of pages are
// normally distributed with these means and standard deviations.
const (
	delayMean, delayDeviation = 1500 * time.Millisecond, 500 * time.Millisecond
	sizeMean, sizeDeviation   = 300_000, 50_000
)

// StartPages starts the server on the loopback interface. A page's number
// determines its size and its delay, so that every run fetches the same pages.
func StartPages() *httptest.Server {
	line := bytes.Repeat([]byte("a line of text on a page that is fetched\n"), (sizeMean+10*sizeDeviation)/40)
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, err := strconv.ParseUint(strings.TrimLeft(r.URL.Path, "/"), 10, 64)
		if err != nil {
			http.NotFound(w, r)
			return
		}
		rnd := rand.New(rand.NewPCG(n, 1))
		delay := delayMean + time.Duration(rnd.NormFloat64()*float64(delayDeviation))
		size := sizeMean + int(rnd.NormFloat64()*sizeDeviation)
		select {
		case <-time.After(max(0, delay)):
			w.Write(line[:max(0, min(len(line), size))])
		case <-r.Context().Done():
		}
	}))
}

// WriteURLs writes the list of the first count pages of a server, one URL a line. Lines are
// padded to PageLine bytes, so that splits of this size have one page each.
func WriteURLs(name, server string, count int) error {
	var b bytes.Buffer
	for i := range count {
		url := server + "/"
		number := strconv.Itoa(100 + i)
		b.WriteString(url + strings.Repeat("0", max(0, PageLine-1-len(number)-len(url))) + number + "\n")
	}
	return os.WriteFile(name, b.Bytes(), 0o666)
}

// PageLine is the length of a line of WriteURLs in bytes.
const PageLine = 40
