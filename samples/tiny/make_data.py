#!/usr/bin/python3
"""Stand-ins for the data of the four MLPerf Tiny networks.

    make_data.py images FASHION OUT     images32_*.npy and images96_*.npy
    make_data.py words OUT              words_*.npy; espeak-ng and sox
    make_data.py hum OUT                hum_*.npy; sox

The benchmark's own data (CIFAR-10, Visual Wake Words, Speech Commands, ToyADMOS)
are to be fetched from their owners. These have the same shapes and are made on
any machine: Fashion-MNIST enlarged, synthetic speech, synthetic machines. They
show that a network trains, and say nothing of a benchmark's score.

Needs NumPy. The same command writes the same bytes.
"""
import gzip
import pathlib
import struct
import subprocess
import sys
import tempfile
import wave

import numpy as np

RATE = 16000  # samples a second
WORDS = ["yes", "no", "up", "down", "left", "right", "on", "off", "stop", "go"]
OTHERS = ["bed", "cat", "five", "house", "seven", "tree", "zero", "happy"]


def save(folder, name, x, y=None):
    np.save(folder / f"{name}_x.npy" if y is not None else folder / f"{name}.npy",
            np.ascontiguousarray(x))
    if y is not None:
        np.save(folder / f"{name}_y.npy", np.asarray(y, np.uint8))


def read_idx(path):
    data = gzip.decompress(path.read_bytes())
    dims = struct.unpack(f">{data[3]}I", data[4:4 + 4 * data[3]])
    return np.frombuffer(data, np.uint8, offset=4 + 4 * data[3]).reshape(dims)


def images(fashion, out):
    """Of 28x28: a border to 32x32; threefold, with a border, 96x96. For the
    network with two classes: is it worn on the feet?"""
    for part, name, count in (("train", "train", 6000), ("t10k", "test", 1000)):
        x = read_idx(fashion / f"{part}-images-idx3-ubyte.gz")[:10 * count]
        y = read_idx(fashion / f"{part}-labels-idx1-ubyte.gz")[:10 * count]
        grey = np.pad(x, ((0, 0), (2, 2), (2, 2)))
        save(out, f"images32_{name}", np.repeat(grey[..., None], 3, 3), y)
        large = np.pad(x[:count].repeat(3, 1).repeat(3, 2),
                       ((0, 0), (6, 6), (6, 6)))
        save(out, f"images96_{name}", np.repeat(large[..., None], 3, 3),
             np.isin(y[:count], (5, 7, 9)))


def read_wave(path):
    with wave.open(str(path)) as file:
        assert file.getsampwidth() == 2 and file.getframerate() == RATE
        return np.frombuffer(file.readframes(file.getnframes()), "<i2") / 32768


def mel_filters(bands, size, low, high):
    mel = np.linspace(*(1127 * np.log(1 + np.array((low, high)) / 700)), bands + 2)
    edges = 700 * (np.exp(mel / 1127) - 1) * size / RATE
    bins = np.arange(size // 2 + 1)[:, None]
    up = (bins - edges[:-2]) / (edges[1:-1] - edges[:-2])
    down = (edges[2:] - bins) / (edges[2:] - edges[1:-1])
    return np.maximum(0, np.minimum(up, down))


def log_mel(sound, window, step, size, filters):
    frames = np.lib.stride_tricks.sliding_window_view(sound, window)[::step]
    power = np.abs(np.fft.rfft(frames * np.hanning(window), size)) ** 2
    return np.log(power @ filters + 1e-6)


def cosine_transform(bands, count):
    i = np.arange(bands)[:, None] + 0.5
    return np.sqrt(2 / bands) * np.cos(np.pi / bands * i * np.arange(count))


def words(out):
    """One second each as 49 frames of 10 cepstral coefficients: ten words,
    silence (class 10) and other words (class 11)."""
    random = np.random.RandomState(1)
    filters = mel_filters(40, 512, 20, 4000)
    cosines = cosine_transform(40, 10)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        noise = sox_noise(folder, "pinknoise", 60)
        sounds = {word: [say(folder, word, voice) for voice in range(24)]
                  for word in WORDS + OTHERS}
    for name, count, voices in (("train", 7200, range(0, 20)),
                                ("test", 1200, range(20, 24))):
        x, y = [], []
        for i in range(count):
            label = i % 12
            sound = np.zeros(RATE)
            if label != 10:
                word = WORDS[label] if label < 10 else random.choice(OTHERS)
                spoken = sounds[word][random.choice(voices)][:RATE]
                begin = random.randint(RATE - len(spoken) + 1)
                sound[begin:begin + len(spoken)] = spoken * random.uniform(.3, 1)
            begin = random.randint(len(noise) - RATE)
            sound += noise[begin:begin + RATE] * random.uniform(.01, .3)
            x.append(log_mel(sound, 480, 320, 512, filters) @ cosines)
            y.append(label)
        save(out, f"words_{name}", np.array(x, np.float32)[..., None] / 10, y)


def say(folder, word, voice):
    """A word by the voice of that number: eight speakers, three speeds."""
    spoken, sound = folder / "spoken.wav", folder / "sound.wav"
    speaker = ("m1", "m3", "m5", "m7", "f1", "f2", "f3", "f4")[voice % 8]
    subprocess.run(["espeak-ng", "-v", f"en-us+{speaker}", "-s",
                    str(130 + 25 * (voice // 8)), "-w", spoken, word], check=True)
    subprocess.run(["sox", "-D", spoken, "-r", str(RATE), sound], check=True)
    return read_wave(sound)


def sox_noise(folder, *effect):
    path = folder / "noise.wav"
    subprocess.run(["sox", "-R", "-D", "-n", "-r", str(RATE), "-b", "16", path,
                    "synth", str(effect[-1]), *effect[:-1]], check=True)
    return read_wave(path)


def hum(out):
    """Five frames of 128 mel bands of a machine that runs: fan, motor and
    noise."""
    random = np.random.RandomState(2)
    filters = mel_filters(128, 1024, 0, RATE / 2)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        fan = sox_noise(folder, "brownnoise", 120)
        motor = sox_noise(folder, "square", "97", "tremolo", "7", "40", 120)
        hiss = sox_noise(folder, "whitenoise", 120)
    mixes = [fan * random.uniform(.2, .6) + motor * random.uniform(.05, .3) +
             hiss * random.uniform(.01, .05) for _ in range(4)]
    frames = [log_mel(mix, 1024, 512, 1024, filters) for mix in mixes]
    x = np.concatenate([
        np.lib.stride_tricks.sliding_window_view(f, 5, axis=0)
        .transpose(0, 2, 1).reshape(-1, 640) for f in frames])
    x = (x[random.permutation(len(x))] / 10).astype(np.float32)
    save(out, "hum_train", x[:12000])
    save(out, "hum_test", x[12000:14000])


def main(arguments):
    what = arguments[0] if arguments else ""
    makers = {"images": (images, 2), "words": (words, 1), "hum": (hum, 1)}
    if what not in makers or len(arguments) != 1 + makers[what][1]:
        sys.exit(__doc__)
    folders = [pathlib.Path(path) for path in arguments[1:]]
    folders[-1].mkdir(parents=True, exist_ok=True)
    makers[what][0](*folders)


if __name__ == "__main__":
    main(sys.argv[1:])
