package hdfs

import (
	"bufio"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// datanode is a member of a pipeline.
type datanode struct {
	info    []byte // DatanodeInfoProto, passed on unchanged
	id      []byte // the DatanodeIDProto in it
	addr    string // of data transfers
	storage string // the disk that the NameNode chose
}

// extent names a block in one of its versions. The generation grows with each recovery,
// so replicas that a recovery left behind are recognised.
//
// A recovery gives the block a new generation through the NameNode first and the DataNodes second. A DataNode
// that missed it, because it was cut off, returns with the old one and has its replica removed.
type extent struct {
	pool           string
	id, generation uint64
}

// encode returns the ExtendedBlockProto of the block with a length.
func (b extent) encode(size int64) message {
	return message{}.text(1, b.pool).number(2, b.id).number(3, b.generation).number(4, uint64(size))
}

// parseLocated decodes a LocatedBlockProto: the block, its token and its DataNodes.
func (f *FS) parseLocated(b []byte) (block extent, token []byte, nodes []datanode, err error) {
	located, err := parse(b)
	if err != nil {
		return block, nil, nil, err
	}
	e, err := parse(located.data(1))
	if err != nil {
		return block, nil, nil, err
	}
	block = extent{string(e.data(1)), e.number(2), e.number(3)}
	for i, loc := range located[3] {
		info, err := parse(loc.data)
		if err != nil {
			return block, nil, nil, err
		}
		id, err := parse(info.data(1))
		if err != nil {
			return block, nil, nil, err
		}
		// The first field is the DataNode's address, the second its name. From outside of a cluster's
		// network often only the name can be reached.
		host := string(id.data(1))
		if f.settings.options.UseDatanodeHostname {
			host = string(id.data(2))
		}
		d := datanode{info: loc.data, id: info.data(1), addr: net.JoinHostPort(host, strconv.FormatUint(id.number(4), 10))}
		// The NameNode lists the storages in the order of the DataNodes.
		if storages := located[8]; i < len(storages) {
			d.storage = string(storages[i].data)
		}
		nodes = append(nodes, d)
	}
	return block, located.data(5), nodes, nil
}

// pipelineError reports that DataNodes of a pipeline failed.
type pipelineError struct {
	bad []datanode
	err error
}

// Error names the DataNodes.
func (e *pipelineError) Error() string {
	text := "DataNode"
	for _, d := range e.bad {
		text += " " + d.addr
	}
	return text + ": " + e.err.Error()
}

// Unwrap returns the first failure.
func (e *pipelineError) Unwrap() error { return e.err }

// The stages of OpWriteBlockProto that are used.
const (
	stageAppend            = 0
	stageAppendRecovery    = 1
	stageStreamingRecovery = 3
	stageCloseRecovery     = 5
	stageCreate            = 6
)

// Parts of the data transfer protocol.
const (
	transferVersion = 28
	opWriteBlock    = 80
	checksumCRC32C  = 2
	statusSuccess   = 0
	chunkSize       = 512      // bytes of data for each checksum
	packetSize      = 64 << 10 // bytes of data in a packet
	maxUnacked      = 80       // packets, as in Hadoop's client
	heartbeatSeq    = -1
)

// packet is a part of a block. data is empty in the last packet of a block, which ends it.
type packet struct {
	seq, offset int64
	last        bool
	data        []byte
}

// appendHead appends what precedes the packet's data on the wire: lengths, header, checksums.
func (p packet) appendHead(b []byte) []byte {
	// datatransfer.proto gives offset, sequence and length fixed sizes, so that all headers are equally long.
	header := message{}
	header = protowire.AppendFixed64(protowire.AppendTag(header, 1, protowire.Fixed64Type), uint64(p.offset))
	header = protowire.AppendFixed64(protowire.AppendTag(header, 2, protowire.Fixed64Type), uint64(p.seq))
	header = header.number(3, protowire.EncodeBool(p.last))
	header = protowire.AppendFixed32(protowire.AppendTag(header, 4, protowire.Fixed32Type), uint32(len(p.data)))
	sums := (len(p.data) + chunkSize - 1) / chunkSize * 4
	// This length covers itself, the checksums and the data, and not the header.
	b = binary.BigEndian.AppendUint32(b, uint32(4+sums+len(p.data)))
	b = binary.BigEndian.AppendUint16(b, uint16(len(header)))
	b = append(b, header...)
	// One checksum for each 512 bytes, the last one for the rest. The last DataNode verifies them before it
	// acknowledges.
	for rest := p.data; len(rest) > 0; rest = rest[min(chunkSize, len(rest)):] {
		b = binary.BigEndian.AppendUint32(b, crc32.Checksum(rest[:min(chunkSize, len(rest))], castagnoli))
	}
	return b
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// pipeline is a connection to the first DataNode of a block, which passes the packets on
// to the others. An acknowledgement passes all DataNodes in reverse order.
//
// The writer's goroutine calls send and drain. A goroutine reads acknowledgements. When it
// has failed, the connection is closed, and send and drain return the failure.
type pipeline struct {
	ctx   context.Context // when it ends, the pipeline fails
	fs    *FS
	nodes []datanode
	conn  net.Conn
	r     *bufio.Reader
	wmu   sync.Mutex // held while a packet is written
	head  []byte     // buffer of write
	mu    struct {
		sync.Mutex
		changed *sync.Cond
		unacked []packet // sent, in order
		free    [][]byte // buffers of acknowledged packets, for buffer
		acked   int64    // bytes of the block that all DataNodes have received
		err     error    // why the pipeline failed; nil while it works
	}
	ended   chan struct{} // closed when the reading goroutine has returned
	release func()        // ends the watch of ctx
}

// setup is a request to write a block.
type setup struct {
	client           string // the writer's name
	block            extent
	token            []byte
	nodes            []datanode
	stage            uint64
	blockSize        int64
	acked, sent      int64  // bytes of the block, in a recovery
	latestGeneration uint64 // in a recovery
}

// encode returns the OpWriteBlockProto.
func (s *setup) encode() message {
	base := message{}.data(1, s.block.encode(s.blockSize)).data(2, s.token)
	op := message{}.data(1, message{}.data(1, base).text(2, s.client))
	// The receiver of the request is left out: it passes the list on to the next DataNode.
	for _, d := range s.nodes[1:] {
		op = op.data(2, d.info)
	}
	// acked and sent bound what a replica may have in a recovery. A DataNode with fewer than acked bytes has
	// lost data that was acknowledged, and refuses.
	return op.number(4, s.stage).number(5, uint64(len(s.nodes))).number(6, uint64(s.acked)).number(7, uint64(s.sent)).
		number(8, s.latestGeneration).data(9, message{}.number(1, checksumCRC32C).number(2, chunkSize))
}

// silence is for how long a DataNode may be silent before it is probed.
func (f *FS) silence() time.Duration { return f.settings.timeout / 3 }

// newPipeline connects to the DataNodes of a block. A *pipelineError names the ones
// that failed.
func (f *FS) newPipeline(ctx context.Context, s setup) (*pipeline, error) {
	d := net.Dialer{Timeout: f.silence()}
	conn, err := d.DialContext(ctx, "tcp", s.nodes[0].addr)
	if ctx.Err() != nil && err != nil {
		return nil, context.Cause(ctx) // no failure of the DataNode
	}
	if err != nil {
		// Only the first DataNode is connected from here. The failure of another one comes with its
		// answer.
		return nil, &pipelineError{s.nodes[:1], err}
	}
	p := &pipeline{ctx: ctx, fs: f, nodes: s.nodes, conn: conn, r: bufio.NewReaderSize(conn, maxDelimited), ended: make(chan struct{})}
	p.mu.changed = sync.NewCond(&p.mu)
	// Before the handshake, which waits for DataNodes as well.
	p.release = watch(ctx, p.interrupt)
	if err := p.handshake(s); err != nil {
		p.release()
		_ = conn.Close() // the first error matters
		// An interruption closes the connection, whose error would blame the DataNode.
		return nil, cmp.Or(p.failure(), err)
	}
	return p, nil
}

// interrupt fails the pipeline because its context has ended. No DataNode is to blame.
func (p *pipeline) interrupt() {
	p.fail(context.Cause(p.ctx))
}

// fail ends the pipeline with its first error, and wakes a blocked read or write and the
// writer.
func (p *pipeline) fail(err error) {
	p.mu.Lock()
	// The first error names the DataNode. Later errors come from the connection that was closed then.
	p.mu.err = cmp.Or(p.mu.err, err)
	p.mu.Unlock()
	_ = p.conn.Close() // after the error is set: the reading goroutine fails with another one
	p.mu.changed.Broadcast()
}

// handshake sends the request and reads the answer of the first DataNode, which has
// connected to the others.
func (p *pipeline) handshake(s setup) error {
	request := delimited([]byte{0, transferVersion, opWriteBlock}, s.encode())
	if err := p.conn.SetWriteDeadline(time.Now().Add(p.fs.settings.timeout)); err != nil {
		return err
	}
	if _, err := p.conn.Write(request); err != nil {
		return &pipelineError{p.nodes[:1], err}
	}
	// The first DataNode connects to the second, and so on, so a dead one at the end delays this answer. Its
	// time-out is longer than silence, hence the probes.
	answer, err := p.readPatiently(func() bool { return true })
	if err != nil {
		return err
	}
	if answer.number(1) == statusSuccess {
		return nil
	}
	// The first DataNode answers for all. If it names no other DataNode, it is itself the one that
	// refuses.
	bad := p.nodes[:1]
	for i, d := range p.nodes {
		if d.addr == string(answer.data(2)) { // the first bad link
			bad = p.nodes[i : i+1]
		}
	}
	return &pipelineError{bad, fmt.Errorf("does not accept the block (status %d) %s", answer.number(1), answer.data(5))}
}

// readPatiently reads a message. When nothing arrives for a while although waiting
// returns true, it probes the DataNodes, since any DataNode may delay the message. It
// fails if some do not react, or if they all react and the message still does not arrive.
// When waiting returns false it sends a heartbeat, so the DataNodes stay connected.
func (p *pipeline) readPatiently(waiting func() bool) (fields, error) {
	var since time.Time
	for {
		if err := p.conn.SetReadDeadline(time.Now().Add(p.fs.silence())); err != nil {
			return nil, &pipelineError{p.nodes[:1], err}
		}
		m, err := readDelimited(p.r)
		switch {
		case err == nil:
			return m, nil
		// The connection itself broke, and that is the one to the first DataNode.
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return nil, &pipelineError{p.nodes[:1], err}
		case !waiting():
			// No acknowledgement is due, so this silence does not count. A DataNode would close a
			// connection on which it receives nothing for long.
			since = time.Time{}
			if err := p.write(packet{seq: heartbeatSeq}); err != nil {
				return nil, &pipelineError{p.nodes[:1], err}
			}
			continue
		}
		if since.IsZero() {
			since = time.Now()
		}
		bad := p.fs.unresponsive(p.ctx, p.nodes)
		if p.ctx.Err() != nil {
			return nil, context.Cause(p.ctx) // the probes have been cut short
		}
		// Only the DataNodes that do not react are given up. To blame the first one, whose
		// connection this is, would drop a good replica and keep the bad one.
		if len(bad) > 0 {
			return nil, &pipelineError{bad, err}
		}
		// All react and still nothing arrives, perhaps because a disk hangs. One must go for the
		// write to continue; the first is as good a guess as any.
		if time.Since(since) > 2*p.fs.settings.timeout {
			return nil, &pipelineError{p.nodes[:1], err}
		}
	}
}

// unresponsive returns the DataNodes that do not close a connection whose other side
// has been closed. A process that was stopped accepts connections and does no more.
func (f *FS) unresponsive(ctx context.Context, nodes []datanode) (bad []datanode) {
	dead := make([]bool, len(nodes))
	var wg sync.WaitGroup
	for i, d := range nodes {
		// At once: with three DataNodes, one after the other would take three times the silence.
		wg.Go(func() { dead[i] = !f.responds(ctx, d.addr) })
	}
	wg.Wait()
	for i, d := range nodes {
		if dead[i] {
			bad = append(bad, d)
		}
	}
	return bad
}

// responds reports whether a DataNode closes a connection that has been closed on this side, which
// only a running process does.
func (f *FS) responds(ctx context.Context, addr string) bool {
	d := net.Dialer{Timeout: f.silence()}
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return false
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	// A DataNode reads the operation of a new connection, finds the end instead, and closes.
	if conn.(*net.TCPConn).CloseWrite() != nil || conn.SetReadDeadline(time.Now().Add(f.silence())) != nil {
		return false
	}
	_, err = conn.Read(make([]byte, 1))
	return err == io.EOF
}

// start begins to read acknowledgements and sends the packets that an earlier pipeline
// of the block left unacknowledged.
func (p *pipeline) start(acked int64, unacked []packet) error {
	// A copy, because acknowledgements shorten this list while the loop below still sends it.
	p.mu.acked, p.mu.unacked = acked, slices.Clone(unacked)
	// Before the packets are sent again: acknowledgements that no goroutine reads would fill the
	// connection and stop the DataNode.
	go p.readAcks()
	for _, u := range unacked {
		if err := p.transmit(u); err != nil {
			return err
		}
	}
	return nil
}

// send sends a packet. It waits while too many are unacknowledged. After a failure the
// packet counts as unacknowledged.
func (p *pipeline) send(u packet) error {
	p.mu.Lock()
	// The packets are kept in memory for a recovery, so their number is bounded.
	for len(p.mu.unacked) >= maxUnacked && p.mu.err == nil {
		p.mu.changed.Wait()
	}
	// Also after a failure: a recovery sends this list again, and a packet that is not in it would
	// leave a hole in the block.
	p.mu.unacked = append(p.mu.unacked, u)
	err := p.mu.err
	p.mu.Unlock()
	if err != nil {
		return err
	}
	return p.transmit(u)
}

// transmit writes a packet that is listed as unacknowledged, and returns the failure of
// the pipeline if it cannot.
func (p *pipeline) transmit(u packet) error {
	if err := p.write(u); err != nil {
		// The reading goroutine may still receive which DataNode is to blame.
		select {
		case <-p.ended:
		// The peer has reset the connection, so an answer that it sent before is read at once.
		case <-time.After(p.fs.silence()):
			_ = p.conn.Close() // ends that goroutine
			<-p.ended
		}
		return p.failure()
	}
	return nil
}

// write writes a packet to the connection.
func (p *pipeline) write(u packet) error {
	p.wmu.Lock()
	defer p.wmu.Unlock()
	// The reading goroutine notices earlier that nothing is acknowledged.
	if err := p.conn.SetWriteDeadline(time.Now().Add(4 * p.fs.settings.timeout)); err != nil {
		return err
	}
	p.head = u.appendHead(p.head[:0])
	parts := net.Buffers{p.head, u.data} // one system call, without a copy of the data
	_, err := parts.WriteTo(p.conn)
	return err
}

// buffer returns an empty buffer for the data of a packet. Only the writer's goroutine calls it, so no
// packet is being written meanwhile: an acknowledgement may arrive before the write has returned.
func (p *pipeline) buffer() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.mu.free); n > 0 {
		b := p.mu.free[n-1]
		p.mu.free = p.mu.free[:n-1]
		return b
	}
	return make([]byte, 0, packetSize)
}

// drain waits until all packets are acknowledged.
func (p *pipeline) drain() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.mu.unacked) > 0 && p.mu.err == nil {
		p.mu.changed.Wait()
	}
	return p.mu.err
}

// failure returns why the pipeline failed.
func (p *pipeline) failure() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.err
}

// readAcks takes in acknowledgements until the block's last packet is acknowledged or
// the pipeline fails.
func (p *pipeline) readAcks() {
	defer close(p.ended)
	for {
		done, err := p.readAck()
		if err != nil {
			p.fail(err)
		}
		p.mu.changed.Broadcast()
		if done || err != nil {
			return
		}
	}
}

// readAck takes in one PipelineAckProto. done is true for the last one of the block.
func (p *pipeline) readAck() (done bool, err error) {
	ack, err := p.readPatiently(func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.mu.unacked) > 0
	})
	if err != nil {
		return false, err
	}
	// The replies are in the order of the pipeline, so the position names the DataNode that failed.
	for i, reply := range ack[2] {
		// A status other than success from a DataNode in the middle means that this one, or its disk, has
		// failed. The ones before it report success for themselves.
		if reply.number != statusSuccess && i < len(p.nodes) {
			return false, &pipelineError{p.nodes[i : i+1], fmt.Errorf("status %d", reply.number)}
		}
	}
	seq := protowire.DecodeZigZag(ack.number(1))
	if seq == heartbeatSeq {
		return false, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	// To go by the number alone would count packets in between as received by all DataNodes.
	if len(p.mu.unacked) == 0 || p.mu.unacked[0].seq != seq {
		return false, &pipelineError{p.nodes[:1], fmt.Errorf("acknowledged packet %d out of turn", seq)}
	}
	u := p.mu.unacked[0]
	p.mu.unacked = p.mu.unacked[1:]
	// All DataNodes have the bytes, in memory or on disk: HDFS acknowledges before it syncs. What a power
	// failure of all three loses is lost, as for every client.
	p.mu.acked = u.offset + int64(len(u.data))
	// A smaller buffer would make append allocate for the next packet.
	if cap(u.data) == packetSize {
		p.mu.free = append(p.mu.free, u.data[:0])
	}
	return u.last, nil
}

// close ends the connection and returns the state of the block.
func (p *pipeline) close() (acked int64, unacked []packet) {
	// First: the end of ctx must not count as a failure of a pipeline that has done its work.
	p.release()
	_ = p.conn.Close() // everything that matters was acknowledged or is sent again
	<-p.ended
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.acked, p.mu.unacked
}
