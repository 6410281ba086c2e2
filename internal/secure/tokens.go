package secure

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"
)

// tokenPrefix begins every token, so that one that leaks is recognised.
const tokenPrefix = "slw_"

// NewToken draws a token of more than 128 random bits. Being random it needs no
// slow hash: there is nothing to guess from.
func NewToken() string { return tokenPrefix + rand.Text() }

// hashToken is what is stored of a token.
func hashToken(token string) [sha256.Size]byte { return sha256.Sum256([]byte(token)) }

// Tokens are the people and programs that are known by a token.
type Tokens struct{ list []tokenEntry }

type tokenEntry struct {
	hash [sha256.Size]byte
	id   Identity
}

// Find returns whose token it is. The time it takes tells nothing of how much
// of a wrong token was right.
func (t *Tokens) Find(token string) (Identity, bool) {
	hash := hashToken(token)
	at := -1
	for i := range t.list {
		if subtle.ConstantTimeCompare(hash[:], t.list[i].hash[:]) == 1 {
			at = i
		}
	}
	if at < 0 {
		return Identity{}, false
	}
	return t.list[at].id, true
}

// ParseTokens reads a tokens file. Each line is a role, a name, groups with
// commas between them or -, and the SHA-256 of the token in hexadecimal;
// empty lines and those that begin with # are passed over. Errors name the
// line and never quote it.
func ParseTokens(data []byte) (*Tokens, error) {
	t := &Tokens{}
	lines := bufio.NewScanner(bytes.NewReader(data))
	for n := 1; lines.Scan(); n++ {
		fields := strings.Fields(lines.Text())
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		e, err := parseToken(fields)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		t.list = append(t.list, e)
	}
	return t, lines.Err()
}

func parseToken(fields []string) (e tokenEntry, err error) {
	if len(fields) != 4 {
		return e, fmt.Errorf("%d words: want role, name, groups and hash", len(fields))
	}
	if e.id.Role, err = ParseRole(fields[0]); err != nil {
		return e, errors.New("the first word is no role")
	}
	e.id.User = fields[1]
	if fields[2] != "-" {
		e.id.Groups = strings.Split(fields[2], ",")
	}
	hash, err := hex.DecodeString(fields[3])
	if err != nil || len(hash) != len(e.hash) {
		return e, errors.New("the last word is no SHA-256 in hexadecimal")
	}
	e.hash = [sha256.Size]byte(hash)
	return e, nil
}

// TokenLine is the line of a tokens file for a token.
func TokenLine(id Identity, token string) (string, error) {
	for _, word := range append([]string{id.User}, id.Groups...) {
		if word == "" || word == "-" || strings.ContainsAny(word, " \t\r\n,#") {
			return "", fmt.Errorf("%q cannot be the name of a user or group: it is empty or has spaces, commas or # in it", word)
		}
	}
	if _, err := ParseRole(string(id.Role)); err != nil {
		return "", err
	}
	groups := "-"
	if len(id.Groups) > 0 {
		groups = strings.Join(id.Groups, ",")
	}
	hash := hashToken(token)
	return fmt.Sprintf("%s %s %s %x\n", id.Role, id.User, groups, hash), nil
}

// AddToken draws a token for somebody, appends its line to a tokens file, which
// is made if need be, readable for its owner alone, and returns the token: it
// cannot be found out again.
func AddToken(path string, id Identity) (token string, err error) {
	token = NewToken()
	line, err := TokenLine(id, token)
	if err != nil {
		return "", err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
	if err != nil {
		return "", err
	}
	// One write, so that two that add at once do not mix.
	_, err = f.WriteString(line)
	if err = errors.Join(err, f.Close()); err != nil {
		return "", err
	}
	return token, nil
}

// TokenFile is a tokens file that is read again when it has changed.
type TokenFile struct {
	path string
	file watchedFile[*Tokens]
}

// OpenTokens reads a tokens file and refuses one that others may read or write.
func OpenTokens(path string) (*TokenFile, error) {
	t := &TokenFile{path: path}
	t.file.load = func() (*Tokens, error) {
		data, err := readPrivate(path)
		if err != nil {
			return nil, err
		}
		tokens, err := ParseTokens(data)
		if err != nil {
			return nil, fmt.Errorf("tokens file %s: %w", path, err)
		}
		return tokens, nil
	}
	t.file.paths = []string{path}
	_, err := t.file.get()
	return t, err
}

// Find returns whose token it is. A file that has been spoiled since leaves what
// was read before; the error says so.
func (t *TokenFile) Find(token string) (Identity, bool, error) {
	tokens, err := t.file.get()
	if tokens == nil {
		return Identity{}, false, err
	}
	id, ok := tokens.Find(token)
	return id, ok, err
}

// readPrivate reads a file that holds secrets. Its group may read it, as that of
// files which an orchestrator mounts may.
func readPrivate(path string) ([]byte, error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if mode := st.Mode().Perm(); mode&0o027 != 0 {
		return nil, fmt.Errorf("%s can be read or changed by others (mode %04o): chmod 600 it", path, mode)
	}
	return os.ReadFile(path)
}
