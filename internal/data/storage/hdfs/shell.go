package hdfs

import (
	"bufio"
	"context"
	"crypto/md5" //nolint:gosec // the algorithm is HDFS's
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/colinmarc/hdfs/v2"

	"github.com/slotwise/slotwise/internal/data/storage"
)

var (
	_ storage.Sized    = (*FS)(nil)
	_ storage.Limited  = (*FS)(nil)
	_ storage.Summed   = (*FS)(nil)
	_ storage.Appender = (*FS)(nil)
)

// Space implements storage.Sized: the sizes of all DataNodes together.
func (f *FS) Space(ctx context.Context, p string) (storage.Space, error) {
	var info hdfs.FsInfo
	err := f.do(ctx, func(c *hdfs.Client) (err error) {
		info, err = c.StatFs()
		return err
	})
	if err != nil {
		return storage.Space{}, f.failed("statfs", f.inner(p), err)
	}
	return storage.Space{Total: int64(info.Capacity), Used: int64(info.Used), Free: int64(info.Remaining)}, nil //nolint:gosec // Java's numbers have a sign
}

// Quota implements storage.Limited.
func (f *FS) Quota(ctx context.Context, p string) (storage.Quota, error) {
	p = f.inner(p)
	var q storage.Quota
	err := f.do(ctx, func(c *hdfs.Client) error {
		s, err := c.GetContentSummary(p)
		if err == nil {
			q = storage.Quota{Names: int64(s.NameQuota()), Bytes: s.SpaceQuota()}
		}
		return err
	})
	if err != nil {
		return q, f.failed("quota", p, err)
	}
	return q, nil
}

// opBlockChecksum asks a DataNode for the checksum of a block.
const opBlockChecksum = 85

// blockSum is a DataNode's answer about a block.
type blockSum struct {
	bytesPerSum uint64 // of data, for each CRC
	sums        uint64 // CRCs of the block
	md5         []byte // of all CRCs
	kind        uint64 // of the CRCs
}

// Checksum implements storage.Summed. The checksum is an MD5 of one MD5 for each block, which
// the DataNodes compute from the CRCs that they keep. It depends on the sizes of the blocks.
func (f *FS) Checksum(ctx context.Context, p string) (algorithm string, sum []byte, err error) {
	p = f.inner(p)
	st, err := f.stat(ctx, p)
	switch {
	case err == nil && st.IsDir():
		err = syscall.EISDIR
	// Protection encrypts the connection by a handshake that only the library speaks, and it has no such
	// call.
	case err == nil && f.settings.options.DataTransferProtection != "":
		err = errors.New("checksums cannot be read where data transfers are protected (dfs.data.transfer.protection)")
	}
	if err == nil {
		algorithm, sum, err = f.checksum(ctx, p, st.Size())
	}
	if err != nil {
		return "", nil, f.failed("checksum", p, err)
	}
	return algorithm, sum, nil
}

// checksum implements Checksum for a file of size bytes.
func (f *FS) checksum(ctx context.Context, p string, size int64) (string, []byte, error) {
	answer, err := f.callOnce(ctx, "getBlockLocations", message{}.text(1, p).number(2, 0).number(3, uint64(size))) //nolint:gosec // not negative
	if err != nil {
		return "", nil, err
	}
	located, err := parse(answer.data(1))
	if err != nil {
		return "", nil, err
	}
	var first blockSum
	var all []byte
	// In the order of the blocks, which the outer MD5 depends on.
	for i, b := range located[2] {
		s, err := f.blockChecksum(ctx, b.data)
		if err != nil {
			return "", nil, err
		}
		all = append(all, s.md5...)
		switch {
		case i == 0:
			first = s
		case s.bytesPerSum != first.bytesPerSum || s.kind != first.kind:
			return "", nil, errors.New("its blocks have CRCs of different kinds, from which no checksum of the file can be made")
		}
	}
	kind := "CRC32"
	if first.kind == checksumCRC32C {
		kind = "CRC32C"
	}
	// Hadoop's client counts the CRCs of a block only in files of several blocks.
	if len(located[2]) < 2 {
		first.sums = 0
	}
	// It computes the outer MD5 over its whole buffer, which begins with 32 bytes and doubles. The
	// rest of the buffer is zero.
	buffer := 32
	if len(all) > buffer {
		buffer = 1 << bits.Len(uint(len(all)-1))
	}
	outer := md5.Sum(append(all, make([]byte, buffer-len(all))...)) //nolint:gosec // the algorithm is HDFS's
	sum := binary.BigEndian.AppendUint32(nil, uint32(first.bytesPerSum))
	sum = append(binary.BigEndian.AppendUint64(sum, first.sums), outer[:]...)
	return fmt.Sprintf("MD5-of-%dMD5-of-%d%s", first.sums, first.bytesPerSum, kind), sum, nil
}

// blockChecksum asks the DataNodes of a block, one after the other, until one answers.
func (f *FS) blockChecksum(ctx context.Context, located []byte) (s blockSum, err error) {
	block, token, nodes, err := f.parseLocated(located)
	if err != nil {
		return s, err
	}
	size, err := lengthOf(located)
	if err != nil {
		return s, err
	}
	err = errors.New("a block has no DataNodes")
	for _, d := range nodes {
		if s, err = f.askChecksum(ctx, d, message{}.data(1, block.encode(size)).data(2, token)); err == nil {
			return s, nil
		}
		if ctx.Err() != nil {
			return s, context.Cause(ctx)
		}
		err = &pipelineError{[]datanode{d}, err}
	}
	return s, err
}

// lengthOf returns the length of the block in a LocatedBlockProto, in bytes.
func lengthOf(located []byte) (int64, error) {
	m, err := parse(located)
	if err != nil {
		return 0, err
	}
	block, err := parse(m.data(1))
	return int64(block.number(4)), err //nolint:gosec // Java's numbers have a sign
}

// askChecksum asks one DataNode. header is the BaseHeaderProto of the block.
func (f *FS) askChecksum(ctx context.Context, d datanode, header message) (s blockSum, err error) {
	dialer := net.Dialer{Timeout: f.silence()}
	conn, err := dialer.DialContext(ctx, "tcp", d.addr)
	if err != nil {
		return s, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	// The DataNode reads the CRCs of the whole block, which takes less than a second as a rule.
	if err := conn.SetDeadline(time.Now().Add(f.settings.timeout)); err != nil {
		return s, err
	}
	if _, err := conn.Write(delimited([]byte{0, transferVersion, opBlockChecksum}, message{}.data(1, header))); err != nil {
		return s, err
	}
	answer, err := readDelimited(bufio.NewReaderSize(conn, maxDelimited))
	if err != nil {
		return s, err
	}
	if answer.number(1) != statusSuccess {
		return s, fmt.Errorf("does not return the checksum of a block (status %d) %s", answer.number(1), answer.data(5))
	}
	m, err := parse(answer.data(3))
	if err != nil {
		return s, err
	}
	s = blockSum{bytesPerSum: m.number(1), sums: m.number(2), md5: m.data(3), kind: m.number(4)}
	if len(s.md5) != md5.Size {
		return s, fmt.Errorf("has returned a checksum of %d bytes", len(s.md5))
	}
	return s, nil
}

// errWriting is the error of an append while another client writes the file.
var errWriting = errors.New("another client is writing the file, or did so and has not closed it; the NameNode gives it up after some minutes")

// flagAppend is the flag of CreateFlagProto for an append.
const flagAppend = 4

// Append implements storage.Appender. It continues the last block, as Hadoop's client does.
func (f *FS) Append(ctx context.Context, p string) (io.WriteCloser, error) {
	p = f.inner(p)
	w, err := f.newAppend(ctx, p)
	var remote *remoteError
	if errors.As(err, &remote) && (remote.exception == "org.apache.hadoop.hdfs.protocol.AlreadyBeingCreatedException" ||
		remote.exception == "org.apache.hadoop.hdfs.protocol.RecoveryInProgressException") {
		err = errWriting
	}
	if err != nil {
		return nil, f.failed("append", p, err)
	}
	return &appended{w}, nil
}

// newAppend returns a writer at the end of a file.
func (f *FS) newAppend(ctx context.Context, p string) (*writer, error) {
	st, err := f.stat(ctx, p)
	switch {
	case err != nil:
		return nil, err
	case st.IsDir():
		return nil, syscall.EISDIR
	case f.settings.options.DataTransferProtection != "":
		return nil, errors.New("files cannot be appended to where data transfers are protected (dfs.data.transfer.protection)")
	}
	w := &writer{ctx: ctx, fs: f, nn: newNamenode(f), path: p}
	if err := w.reopen(st); err != nil {
		w.abandon()
		return nil, err
	}
	return w, nil
}

// reopen takes the lease of the file and continues its last block, if that is not full.
func (w *writer) reopen(st os.FileInfo) error {
	status, ok := st.Sys().(*hdfs.FileStatus)
	if !ok || status.GetBlocksize() == 0 {
		return errors.New("the NameNode has not returned the size of the file's blocks")
	}
	w.blockSize, w.file = int64(status.GetBlocksize()), status.GetFileId() //nolint:gosec // a server's block has fewer bytes
	answer, err := w.nn.call(w.ctx, "append", message{}.text(1, w.path).text(2, w.nn.name).number(3, flagAppend))
	if err != nil || len(answer.data(1)) == 0 {
		return err // without a block the last one is full, or the file is empty
	}
	block, token, nodes, err := w.fs.parseLocated(answer.data(1))
	if err != nil {
		return err
	}
	size, err := lengthOf(answer.data(1))
	if err != nil {
		return err
	}
	if len(nodes) == 0 {
		return errors.New("no DataNode has the file's last block")
	}
	// sent begins behind the bytes that the block has, so Write fills it up to the block size.
	w.block = &openBlock{extent: block, token: token, sent: size, seq: 1}
	// The DataNodes reopen their finished replicas under a new generation. acked is size: nothing of the old
	// bytes may be lost.
	if err := w.connect(stageAppend, size, nil, nodes, nil); err != nil {
		w.block = nil // has no pipeline
		return err
	}
	return nil
}

// abandon ends the writer and leaves the file. The NameNode closes it when the lease expires.
func (w *writer) abandon() {
	if w.block != nil {
		w.block.close()
		w.block = nil
	}
	if w.err == nil {
		w.err = os.ErrClosed
	}
	w.nn.close()
}

// appended implements io.WriteCloser for an append.
type appended struct{ w *writer }

// Write implements io.Writer.
func (a *appended) Write(b []byte) (int, error) {
	n, err := a.w.Write(b)
	if err != nil {
		err = a.w.fs.failed("append", a.w.path, err)
	}
	return n, err
}

// Close stores the rest of the bytes and completes the file. After an error it leaves the file as
// it is.
func (a *appended) Close() error {
	if err := a.w.Close(a.w.ctx); err != nil {
		// Removing it, as Remove does for new files, would lose the bytes that the file had before.
		a.w.abandon()
		return a.w.fs.failed("append", a.w.path, err)
	}
	return nil
}
