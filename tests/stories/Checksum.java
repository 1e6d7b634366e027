// SPDX-License-Identifier: GPL-2.0-only
// The program of the story `jvm`: many threads that allocate, share and compute;
// one number comes out.
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

public class Checksum {
  static final Map<Integer, Long> shared = new ConcurrentHashMap<>();

  static long work(int part, int rounds) {
    long sum = part;
    for (int round = 0; round < rounds; round++) {
      Map<String, long[]> garbage = new HashMap<>();
      for (int i = 0; i < 60; i++) {
        long[] block = new long[100 + i];
        for (int j = 0; j < block.length; j++) block[j] = sum = sum * 6364136223846793005L + 1442695040888963407L;
        garbage.put("block " + part + " " + (sum & 0xffff), block);
      }
      for (long[] block : garbage.values()) sum ^= block[block.length - 1];
      shared.merge((int) (sum & 0x3f), sum, (a, b) -> a + b);
    }
    return sum;
  }

  public static void main(String[] args) throws Exception {
    int rounds = Integer.parseInt(args[1]);
    ExecutorService pool = Executors.newFixedThreadPool(32);
    List<Future<Long>> parts = new ArrayList<>();
    for (int i = 0; i < 128; i++) {
      final int part = i;
      parts.add(pool.submit(() -> work(part, rounds)));
    }
    long all = 0;
    for (Future<Long> part : parts) all = all * 31 + part.get();
    pool.shutdown();
    for (Map.Entry<Integer, Long> e : shared.entrySet()) all += e.getKey() * e.getValue();
    while (Files.exists(Path.of(args[2]))) Thread.sleep(10); // not before the story is through with it
    Files.writeString(Path.of(args[0]), Long.toHexString(all) + "\n");
  }
}
